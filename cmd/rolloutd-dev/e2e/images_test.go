package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// looker is a command-line agent that shows the model a picture, and then another time.
const looker = `
import base64, json, os, sys, urllib.request
with open(sys.argv[1], "rb") as f:
    picture = "data:image/png;base64," + base64.b64encode(f.read()).decode()
look = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}}]}
def ask(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]
ask([look, {"role": "assistant", "content": ask([look])["content"]}, look])
`

// An image that an agent shows the model is in a file over REST. The rollout's sequence says where, and among which tokens
// the model saw it; the trace names it by its digest.
func TestImages(t *testing.T) {
	t.Parallel()

	const picture = "\x89PNG a picture of 40 bytes or so, twice"

	seen := make(chan int, 8)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			http.NotFound(w, r)
			return
		}

		shown := strings.Count(string(body), base64.StdEncoding.EncodeToString([]byte(picture)))
		if shown > 0 {
			seen <- shown
		}

		prompt := []int32{1, 2, 3}
		if shown > 1 {
			prompt = []int32{1, 2, 3, 10, 11, 4, 5}
		}

		routedReply{prompt: prompt, ids: []int32{10, 11}, finish: "stop", message: `{"role":"assistant","content":"A cat."}`}.write(w)
	}))
	t.Cleanup(engine.Close)

	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "look.py"), []byte(looker), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cat.png"), []byte(picture), 0o644))

	config := configFile(t, "agents:\n  - name: looker\n    folder: "+folder+"\n    command: [python3, \"{dir}/look.py\", \"{dir}/cat.png\"]\n")
	srv := startDev(t, devOptions{flags: []string{"--config", config}})

	r := runRollout(t, srv.url, args{
		"instruction": "look", "agent": "looker", "endpoint": "vllm", "base_url": engine.URL + "/v1", "model": "m",
		"verify": []string{"true"}, "limits": args{"attempts": 1},
	})
	require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))
	require.Equal(t, []int{1, 2}, []int{<-seen, <-seen}, "the model gets the pictures themselves")

	var s sequence.Sequence

	at := srv.url + "/rollouts/" + r.ID
	require.NoError(t, json.NewDecoder(strings.NewReader(get(t, at+"/trajectory"))).Decode(&s))
	require.Equal(t, picture, get(t, at+"/images"), "it is there once")

	sum := sha256.Sum256([]byte(picture))
	ref := rollout.ImageRef{Digest: "sha256:" + hex.EncodeToString(sum[:]), MediaType: "image/png", Bytes: int64(len(picture))}
	again := ref
	again.Message = 2

	require.Equal(t, []sequence.Image{
		{ImageRef: ref, Turn: 1, Stop: 3},
		{ImageRef: again, Turn: 2, Start: 5, Stop: 7},
	}, s.Images)

	trace := get(t, at+"/trace")
	require.NotContains(t, trace, "base64")
	require.Equal(t, 6, strings.Count(trace, ref.Digest), "three in requests, three in references")
}
