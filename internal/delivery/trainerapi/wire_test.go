package trainerapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/delivery/trainerapi"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

func serve(t *testing.T) string {
	t.Helper()
	q, err := queue.Open(queue.Options{Path: filepath.Join(t.TempDir(), "queue.db")})
	require.NoError(t, err)

	srv := httptest.NewServer(trainerapi.New(trainerapi.Options{Queue: q, Log: slog.New(slog.DiscardHandler)}))

	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, q.Close())
	})

	return srv.URL
}

// noEnv is an environment that is not registered.
const noEnv = 99

const registration = `{"wandb_group":"g","wandb_project":"p","batch_size":%d,"max_token_len":512,"checkpoint_dir":"/c","save_checkpoint_interval":10,"starting_step":3,"num_steps":100}`

// groupOf returns a group of n sequences that carry a mark.
func groupOf(n, mark int, more string) string {
	var tokens, masks, scores, logprobs []string
	for i := range n {
		tokens = append(tokens, fmt.Sprintf("[1, 2, %d]", mark))
		masks = append(masks, fmt.Sprintf("[-100, -100, %d]", mark))
		scores = append(scores, fmt.Sprintf("%d.5", i))
		logprobs = append(logprobs, "[1.0, 1.0, -0.25]")
	}

	join := func(l []string) string { return "[" + strings.Join(l, ", ") + "]" }

	return fmt.Sprintf(
		`{"tokens": %s, "masks": %s, "scores": %s, "inference_logprobs": %s%s}`,
		join(tokens),
		join(masks),
		join(scores),
		join(logprobs),
		more,
	)
}

// both sends the same requests to Atropos' own server and to ours.
type both struct {
	t           *testing.T
	theirs, our string
}

// same requires the same status and the same JSON, except for members that only our server has.
func (b both) same(method, path, body string) {
	b.t.Helper()
	wantStatus, want := pyclient.DoRequest(b.t, method, b.theirs+path, body)
	gotStatus, got := pyclient.DoRequest(b.t, method, b.our+path, body)
	require.Equal(b.t, wantStatus, gotStatus, "%s %s: %s", method, path, got)

	if wantStatus != http.StatusOK || path == "/reset_data" {
		return
	}

	var w, g any
	require.NoError(b.t, json.Unmarshal([]byte(want), &w), want)
	require.NoError(b.t, json.Unmarshal([]byte(got), &g), got)

	if members, ok := g.(map[string]any); ok {
		for name := range members {
			if _, known := w.(map[string]any)[name]; !known {
				delete(members, name)
			}
		}

		if path == "/register" {
			require.IsType(b.t, 0.0, members["uuid"])
			return
		}
	}

	require.Equal(b.t, w, g, "%s %s %s", method, path, body)
}

// A trainer and its environments get the same replies from Atropos' own server and from ours.
func TestSameAsAtropos(t *testing.T) {
	t.Parallel()

	b := both{t, pyclient.StartAtropos(t).URL, serve(t)}
	for _, path := range []string{"/", "/info", "/wandb_info", "/status", "/batch", "/latest_example"} {
		b.same("GET", path, "")
	}

	env := `{"max_token_length":512,"desired_name":"e","weight":1.0,"group_size":4,"min_batch_allocation":null}`
	b.same("POST", "/register-env", env)
	b.same("POST", "/register", `{"batch_size": 1}`)
	b.same("POST", "/register", fmt.Sprintf(registration, 8))

	for _, path := range []string{"/info", "/wandb_info", "/status"} {
		b.same("GET", path, "")
	}

	b.same("POST", "/register-env", env)
	b.same("GET", "/batch", "")
	b.same("POST", "/register-env", env)
	b.same("POST", "/register-env", strings.Replace(env, "1.0", "3.0", 1))
	b.same("POST", "/register-env", `{"max_token_length":512}`)
	b.same("GET", "/status-env", `{"env_id":0}`)
	b.same(
		"POST",
		"/scored_data",
		groupOf(4, 7, `, "env_id": 0, "unknown": 1, "messages": [[{"role": "user", "content": "é"}]]`),
	)
	b.same("POST", "/scored_data", groupOf(2, 8, `, "env_id": 0`))
	b.same("POST", "/scored_data", groupOf(2, 9, `, "env_id": 0`))
	b.same("GET", "/latest_example", "")
	b.same("POST", "/scored_data_list", "["+groupOf(4, 10, `, "env_id": 1`)+", "+groupOf(2, 11, `, "env_id": 1`)+"]")

	for _, body := range []string{`{"env_id":0}`, `{"env_id":1}`, `{}`} {
		b.same("GET", "/status-env", body)
	}

	b.same("GET", "/status", "")
	b.same("GET", "/batch", "")
	b.same("GET", "/batch", "")
	b.same("GET", "/status", "")
	b.same("POST", "/disconnect-env", `{"env_id":1}`)
	b.same("GET", "/status-env", `{"env_id":0}`)

	for _, bad := range []string{
		`{}`, `[]`, `nonsense`, `{"tokens":[[1]],"masks":[[1]]}`, `{"tokens":1,"masks":[[1]],"scores":[1]}`, `{"tokens":[["a"]],"masks":[[1]],"scores":[1]}`,
		`{"tokens":[[1]],"masks":[[1]],"scores":["a"]}`, `{"tokens":[[1]],"masks":[[1]],"scores":[1],"messages":[[{"role":"user"}]]}`, `{"tokens":[[1.5]],"masks":[[1]],"scores":[1]}`,
	} {
		b.same("POST", "/scored_data", bad)
	}

	b.same("GET", "/reset_data", "")
	b.same("GET", "/status", "")
}

// batches requests batches until none is left, and returns them in a fixed order.
func batches(t *testing.T, url string) (out []string) {
	t.Helper()

	for {
		_, text := pyclient.DoRequest(t, "GET", url+"/batch", "")

		var answer struct {
			Batch []map[string]any `json:"batch"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer), text)

		if answer.Batch == nil {
			slices.Sort(out)
			return out
		}

		batch, err := json.Marshal(answer.Batch)
		require.NoError(t, err)

		out = append(out, string(batch))
	}
}

// Random groups of random environments, with and without minimums, give batches of the same groups in the
// same order. Atropos forms all possible batches at once and serves the last one first, so batches that can
// be formed at the same time are compared regardless of order.
func TestSameBatchesAsAtropos(t *testing.T) {
	t.Parallel()

	theirs := pyclient.StartAtropos(t).URL
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := both{t, theirs, serve(t)}
			b.same("GET", "/reset_data", "")
			pyclient.DoRequest(t, "GET", theirs+"/reset_data", "")

			random := rand.New(rand.NewPCG(seed, 1))

			b.same("POST", "/register", fmt.Sprintf(registration, 16))
			b.same("GET", "/batch", "")

			for i := range 3 {
				least := "null"
				if seed%2 == 1 && i < 2 {
					least = "0.25"
				}

				b.same(
					"POST",
					"/register-env",
					fmt.Sprintf(
						`{"max_token_length":512,"desired_name":"e","weight":1,"group_size":%d,"min_batch_allocation":%s}`,
						2<<i,
						least,
					),
				)
			}

			for mark := range 60 {
				env := random.IntN(3)

				size := 2 << env
				if mark%10 == 9 {
					env, size = noEnv, 4
				}

				b.same("POST", "/scored_data", groupOf(size, mark, fmt.Sprintf(`, "env_id": %d`, env)))
				require.Equal(t, batches(t, b.theirs), batches(t, b.our))
				b.same("GET", "/status-env", fmt.Sprintf(`{"env_id":%d}`, random.IntN(3)))
			}

			b.same("GET", "/status", "")
		})
	}
}
