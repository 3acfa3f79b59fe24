package envserver_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Clients read the tasks of configured sets, and the arguments of their own rollouts alone, without keys.
func TestArgumentsOverREST(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"id":"a","instruction":"x","verify":["true"]}`+"\n"+`{"id":"b","verify":7}`+"\n"), 0o600))

	r := shared(t, func(o *envserver.Options) { o.TaskSets = map[string]string{"small": file} })
	get := func(path, token string) (int, string) {
		status, _, out := r.do("GET", path, "", "Authorization", token)
		return status, out
	}

	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/task_sets", http.StatusOK, `{"task_sets":["small"]}`},
		{"/task_sets/small", http.StatusOK, `{"tasks":["a","b"],"count":2}`},
		{"/task_sets/large", http.StatusNotFound, `no task set \"large\" is configured`},
		{"/task_sets/small/arguments?task=a", http.StatusOK, `"verify":["true"]`},
		{"/task_sets/small/arguments?task=b", http.StatusUnprocessableEntity, "verify"},
		{"/task_sets/small/arguments?task=c", http.StatusNotFound, `has no task \"c\"`},
	} {
		status, out := get(c.path, alice)
		require.Equal(t, c.status, status, out)
		require.Contains(t, out, c.want)
	}

	status, _, out := r.do("POST", "/rollouts",
		`{"rollout_id":"own","instruction":"x","endpoint":"vllm","api_key":"sk-secret","verify":["true"]}`, "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)

	status, out = get("/rollouts/own/arguments", alice)
	require.Equal(t, http.StatusOK, status, out)
	require.Contains(t, out, `"verify":["true"]`)
	require.NotContains(t, out, "secret")
	require.NotContains(t, out, "sealed")

	r.fake.mu.Lock()
	stored := r.fake.specs["own"]
	stored.Task.FilesRef = &rollout.Ref{}
	r.fake.specs["own"] = stored
	r.fake.mu.Unlock()

	_, out = get("/rollouts/own/arguments", alice)
	require.Contains(t, out, `"upload_files":{"/home/user/workdir/a.txt":"of the archive"}`)
	require.NotContains(t, out, "left_out")

	status, out = get("/rollouts/own/arguments", bob)
	require.Equal(t, http.StatusNotFound, status, out)
}
