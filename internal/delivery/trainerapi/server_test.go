package trainerapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/delivery/trainerapi"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// client sends requests to one server.
type client struct {
	t   *testing.T
	url string
}

func (c client) do(method, path, body string, header ...string) (int, string) {
	c.t.Helper()
	return pyclient.DoRequest(c.t, method, c.url+path, body, header...)
}

// ok requires the status 200 and decodes the reply.
func (c client) ok(method, path, body string, header ...string) map[string]any {
	c.t.Helper()
	status, text := c.do(method, path, body, header...)
	require.Equal(c.t, http.StatusOK, status, text)

	var out map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(text), &out), text)

	return out
}

// marks returns the third token of each group of a batch, which groupOf sets to the group's mark; nil means
// that there is no batch.
func marks(answer map[string]any) (out []int) {
	groups, _ := answer["batch"].([]any)
	for _, g := range groups {
		out = append(out, int(g.(map[string]any)["tokens"].([]any)[0].([]any)[2].(float64)))
	}

	return out
}

func (c client) register(batch int) { c.ok("POST", "/register", fmt.Sprintf(registration, batch)) }

// In these states, Atropos' server loses data or refuses further requests. Ours does neither.
func TestOddStates(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	c.ok("POST", "/scored_data", groupOf(2, 1, ""))
	require.Equal(t, "error", c.ok("GET", "/batch", "")["status"])
	c.register(2)
	require.Equal(t, []int{1}, marks(c.ok("GET", "/batch", "")), "data from before the registration is there")

	c.ok("POST", "/register-env", `{"max_token_length":1,"desired_name":"e","weight":1,"group_size":2}`)
	c.ok("POST", "/scored_data", groupOf(2, 2, ""))
	c.register(4)
	require.InDelta(t, 4, c.ok("GET", "/info", "")["batch_size"], 0, "another registration counts")
	require.Equal(t, []int{1, 2}, marks(c.ok("GET", "/batch", "")), "and takes apart what was not acknowledged")

	status, text := c.do("GET", "/reset_data", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "Reset successful", text)
	require.Equal(t, "error", c.ok("GET", "/batch", "")["status"])
	c.ok("GET", "/status-env", `{"env_id":0}`)
	c.register(2)
	c.ok("POST", "/scored_data", groupOf(2, 3, `, "env_id": 0`))
	require.Equal(t, []int{3}, marks(c.ok("GET", "/batch", "")))
}

// A batch is served until it is acknowledged: explicitly, or by the next request of a client that does not
// acknowledge explicitly.
func TestAcknowledgement(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	c.register(2)

	for mark := 1; mark <= 4; mark++ {
		c.ok("POST", "/scored_data", groupOf(2, mark, ""))
	}

	for range 2 {
		first := c.ok("GET", "/batch?ack=explicit", "")
		require.Equal(t, []int{1}, marks(first))
		require.InDelta(t, 1, first["batch_id"], 0)
	}

	c.register(2)
	require.Equal(t, []int{1}, marks(c.ok("GET", "/batch?ack=explicit", "")), "the trainer was restarted")

	for range 2 {
		c.ok("POST", "/batch/1/ack", "")
	}

	require.Equal(t, []int{2}, marks(c.ok("GET", "/batch", "")))
	require.Equal(t, []int{3}, marks(c.ok("GET", "/batch", "")))
	require.InDelta(t, 3+3, c.ok("GET", "/status", "")["current_step"], 0)

	for _, id := range []string{"9", "x", "0"} {
		status, _ := c.do("POST", "/batch/"+id+"/ack", "")
		require.Equal(t, http.StatusNotFound, status, id)
	}
}

// Each named client has a batch of its own.
func TestSeveralClients(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	c.register(2)

	for mark := 1; mark <= 3; mark++ {
		c.ok("POST", "/scored_data", groupOf(2, mark, ""))
	}

	for range 2 {
		require.Equal(t, []int{1}, marks(c.ok("GET", "/batch?ack=explicit&client=a", "")))
		require.Equal(t, []int{2}, marks(c.ok("GET", "/batch?ack=explicit&client=b&lease_s=0.000001", "")))
	}

	require.Equal(t, []int{2}, marks(c.ok("GET", "/batch?ack=explicit&client=c", "")), "b's lease has ended")
	c.register(2)
	require.Equal(
		t,
		[]int{2},
		marks(c.ok("GET", "/batch?ack=explicit&client=c", "")),
		"c was restarted, and a works on its batch",
	)
	require.Equal(t, []int{1}, marks(c.ok("GET", "/batch?ack=explicit&client=a", "")))

	for _, query := range []string{"ack=no", "lease_s=-1", "lease_s=NaN", "lease_s=1e9", "client=" + strings.Repeat("x", 101)} {
		status, _ := c.do("GET", "/batch?"+query, "")
		require.Equal(t, http.StatusUnprocessableEntity, status, query)
	}
}

// shortRun returns a function that registers a run with two steps left, and one that tells its step.
func (c client) shortRun() (register func(), step func() any) {
	c.t.Helper()

	register = func() {
		c.ok("POST", "/register", strings.Replace(fmt.Sprintf(registration, 2), `"num_steps":100`, `"num_steps":5`, 1))
	}

	return register, func() any { return c.ok("GET", "/status", "")["current_step"] }
}

// A trainer that registers with the same settings continues its run, or begins the next one if that has ended.
func TestRegisterAfterTheLastStep(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	register, step := c.shortRun()

	register()

	for mark := 1; mark <= 3; mark++ {
		c.ok("POST", "/scored_data", groupOf(2, mark, ""))
	}

	c.ok("GET", "/batch?ack=explicit", "")
	c.ok("POST", "/batch/1/ack", "")
	register()
	require.InDelta(t, 4, step(), 0)

	require.Equal(t, []int{2}, marks(c.ok("GET", "/batch?ack=explicit", "")))
	register()
	require.Equal(t, []int{2}, marks(c.ok("GET", "/batch?ack=explicit", "")), "the last batch is not acknowledged")
	c.ok("POST", "/batch/2/ack", "")
	register()
	require.InDelta(t, 3, step(), 0, "the starting step")
	require.Equal(t, []int{3}, marks(c.ok("GET", "/batch?ack=explicit", "")), "what is queued stays")
}

// A trainer that acknowledges a batch by its next call makes none after its last step.
func TestRegisterAfterTheLastStepOfAPlainTrainer(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	register, step := c.shortRun()

	register()

	for mark := 1; mark <= 2; mark++ {
		c.ok("POST", "/scored_data", groupOf(2, mark, ""))
		require.Equal(t, []int{mark}, marks(c.ok("GET", "/batch", "")))
	}

	require.InDelta(t, 5, step(), 0)
	register()
	require.InDelta(t, 3, step(), 0, "the starting step")
	require.Equal(t, []int{2}, marks(c.ok("GET", "/batch", "")), "whether the last step was completed is not known")
}

// The next request of a named client acknowledges only that client's own batch.
func TestSeveralPlainClients(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	c.register(2)

	for mark := 1; mark <= 4; mark++ {
		c.ok("POST", "/scored_data", groupOf(2, mark, ""))
	}

	require.Equal(t, []int{1}, marks(c.ok("GET", "/batch?client=a&lease_s=0.000001", "")))
	require.Equal(
		t,
		[]int{1},
		marks(c.ok("GET", "/batch?client=b", "")),
		"a's lease has ended, and it has not called again",
	)
	require.Equal(t, []int{2}, marks(c.ok("GET", "/batch?client=a", "")))
	require.Equal(t, []int{3}, marks(c.ok("GET", "/batch?client=b", "")))
	require.InDelta(t, 2, c.ok("GET", "/status", "")["unacknowledged_batches"], 0)
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	c.register(2)

	for _, key := range []string{"a", "a", "b"} {
		c.ok("POST", "/scored_data", groupOf(2, 1, ""), "Idempotency-Key", key)
	}

	list := "[" + groupOf(2, 2, "") + "," + groupOf(2, 3, "") + "]"
	for range 2 {
		c.ok("POST", "/scored_data_list", list, "Idempotency-Key", "c")
	}

	require.InDelta(t, 4, c.ok("GET", "/status", "")["queue_size"], 0)
	c.ok("GET", "/batch", "")
	c.ok("GET", "/batch", "")
	c.ok("POST", "/scored_data", groupOf(2, 1, ""), "Idempotency-Key", "a")
	require.InDelta(t, 2, c.ok("GET", "/status", "")["queue_size"], 0, "also when it is trained on")
	status, _ := c.do("POST", "/scored_data", groupOf(2, 1, ""), "Idempotency-Key", strings.Repeat("x", 201))
	require.Equal(t, http.StatusUnprocessableEntity, status)
}

// Data that can never be trained on is refused with the reason, and none of it is queued.
func TestRefusals(t *testing.T) {
	t.Parallel()

	c := client{t, serve(t)}
	for body, why := range map[string]string{
		groupOf(1, 2147483648, ""):                                                      "tokens[0][2]: must be a whole number from 0 to 2147483647, got 2147483648",
		strings.Replace(groupOf(1, 1, ""), "0.5", "NaN", 1):                             `scores[0]: must be a finite number, got "NaN`,
		strings.Replace(groupOf(1, 1, ""), "0.5", "-Infinity", 1):                       `scores[0]: must be a finite number`,
		strings.Replace(groupOf(1, 1, ""), "0.5", "1e999", 1):                           `scores[0]: must be a finite number`,
		strings.Replace(groupOf(1, 1, ""), "0.5", "01", 1):                              `scores[1]: must be a finite number, got "1]`,
		strings.Replace(groupOf(1, 1, ""), "-0.25", "NaN", 1):                           `inference_logprobs[0][2]: must be a finite number`,
		strings.Replace(groupOf(1, 1, ""), "0.5", "0.5, 1", 1):                          "scores: must have one score for each of the 1 sequences, got 2",
		strings.Replace(groupOf(1, 1, ""), "-100, -100", "-100", 1):                     "masks[0]: must have one value for each of the 3 tokens, got 2",
		strings.Replace(groupOf(1, 1, ""), "[1, 2, 1]", "[-1, 2]", 1):                   "tokens[0][0]: must be a whole number from 0 to 2147483647, got -1",
		groupOf(1, 1, `, "env_id": 4294967296`):                                         "env_id: must be a whole number from 0 to 2147483647",
		groupOf(1, 1, `, "env_id": -1`):                                                 "env_id: must be a whole number",
		groupOf(1, 1, `, "images": `+strings.Repeat("[", 100)):                          `images: must be JSON with finite numbers`,
		groupOf(1, 1, `, "images": `+strings.Repeat("[", 300)+strings.Repeat("]", 300)): "images: must be nested less",
		groupOf(1, 1, `, "images": [NaN]`):                                              "images: must be JSON with finite numbers",
		groupOf(1, 1, `, "overrides": {}`):                                              "overrides: must be a list of objects",
		groupOf(1, 1, `, "generation_params": [1]`):                                     "generation_params: must be an object",
		groupOf(1, 1, ", \"images\": [\"\xff\"]"):                                       "body: must be UTF-8",
		`{"tokens":[` + strings.Repeat("[1],", 4096) + `[1]]}`:                          "tokens: must have at most 4096 elements",
		`{"tokens":[],"masks":[],"scores":[]}`:                                          "tokens: must have at least one sequence",
		`{"tokens":[[1]],"masks":[[1]],"scores":[1]} {}`:                                "body: must have nothing after its end, got \"{}\" at byte 44",
	} {
		status, text := c.do("POST", "/scored_data", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, body)

		var answer struct {
			Detail []struct{ Msg string }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
		require.Contains(t, answer.Detail[0].Msg, why)
	}

	c.register(8)
	c.ok("GET", "/batch", "")

	env := `{"max_token_length":1,"desired_name":"e","weight":1,"group_size":3}`
	for _, r := range []struct{ path, body, why string }{
		{"/scored_data", groupOf(3, 1, ""), "tokens: a group of 3 sequences can never fill a batch of 8: their number must be a divisor of the batch size"},
		{"/register-env", env, "group_size: must be a divisor of the batch size 8, got 3"},
		{"/register-env", strings.Replace(env, ":3", ":1.5", 1), "group_size: must be a whole number, got number 1.5"},
		{"/register-env", strings.Replace(env, `"e"`, "5", 1), "desired_name: must be a string, got number"},
		{"/register", strings.Replace(fmt.Sprintf(registration, 8), `"batch_size":8`, `"batch_size":0`, 1), "batch_size: must be at least 1, got 0"},
		{"/register", `{"wandb_group":"g","wandb_project":"p","checkpoint_dir":"/c"}`, "batch_size: Field required"},
	} {
		status, text := c.do("POST", r.path, r.body)
		require.Equal(t, http.StatusUnprocessableEntity, status, r.path)
		require.Contains(t, text, r.why)
	}

	for list, why := range map[string]string{
		"[" + groupOf(2, 1, "") + "," + groupOf(3, 1, "") + "]": "a group of 3 sequences can never fill a batch of 8",
		"[" + groupOf(2, 1, "") + "] []":                        "body: must have nothing after its end",
		"[" + groupOf(2, 1, "") + ",":                           "group 1: body: must be a JSON object",
	} {
		status, text := c.do("POST", "/scored_data_list", list)
		require.Equal(t, http.StatusUnprocessableEntity, status, list)
		require.Contains(t, text, why)
	}

	require.InDelta(t, 0, c.ok("GET", "/status", "")["queue_size"], 0)
}

// Buffered groups count as one group once they are complete, so that no part of them waits for groups of its size.
func TestBufferedGroupsStayTogether(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	c.register(8)
	c.ok("GET", "/batch", "")
	c.ok("POST", "/register-env", `{"max_token_length":1,"desired_name":"e","weight":1,"group_size":8}`)
	require.Equal(t, "buffered", c.ok("POST", "/scored_data", groupOf(5, 1, `, "env_id": 0`))["status"])
	require.Empty(t, marks(c.ok("GET", "/batch", "")))
	require.InDelta(t, 0, c.ok("POST", "/scored_data", groupOf(3, 2, `, "env_id": 0`))["buffer_size"], 0)
	require.Equal(t, []int{1, 2}, marks(c.ok("GET", "/batch", "")))
}

// An environment that is silent for a minute does not reserve a part of each batch. Its queued groups are used.
func TestSilentEnvironments(t *testing.T) {
	t.Parallel()

	now := time.Unix(1_700_000_000, 0)
	c := openAt(t, &now)
	c.register(4)
	c.ok("GET", "/batch", "")
	c.registerEnvs("0.5", "null")

	c.ok("POST", "/scored_data", groupOf(2, 1, `, "env_id": 1`))
	c.ok("POST", "/scored_data", groupOf(2, 2, `, "env_id": 1`))
	require.Empty(t, marks(c.ok("GET", "/batch", "")))
	require.InDelta(t, 0.5, c.ok("GET", "/status-env", `{"env_id":1}`)["env_weight"], 0)
	require.InDelta(t, 0.5, c.ok("GET", "/status-env", `{"env_id":1}`)["unallocated_fraction"], 0)

	now = now.Add(time.Minute)

	require.InDelta(t, 1, c.ok("GET", "/status-env?env_id=1", "")["env_weight"], 0)
	require.InDelta(t, 1, c.ok("GET", "/status-env?env_id=1", "")["unallocated_fraction"], 0)
	require.Equal(t, []int{1, 2}, marks(c.ok("GET", "/batch", "")))

	for mark := 3; mark <= 5; mark++ {
		c.ok("POST", "/scored_data", groupOf(2, mark, `, "env_id": 1`))
	}

	c.ok("POST", "/scored_data", groupOf(2, 6, `, "env_id": 0`))

	now = now.Add(time.Minute)

	require.Equal(t, []int{6, 3}, marks(c.ok("GET", "/batch", "")), "the share of its queued groups")
}

// Environments from before a reset have no minimum until they call.
func TestEnvironmentsAfterAReset(t *testing.T) {
	t.Parallel()

	now := time.Unix(1_700_000_000, 0)
	c := openAt(t, &now)
	c.register(2)
	c.ok("GET", "/batch", "")
	c.registerEnvs("0.5", "null")
	c.do("GET", "/reset_data", "")

	c.register(2)
	c.ok("POST", "/scored_data", groupOf(2, 1, `, "env_id": 1`))
	require.Equal(t, []int{1}, marks(c.ok("GET", "/batch", "")))

	c.ok("GET", "/status-env?env_id=0", "")
	c.ok("POST", "/scored_data", groupOf(2, 2, `, "env_id": 1`))
	require.Empty(t, marks(c.ok("GET", "/batch", "")))
}

func TestWhatABatchWaitsFor(t *testing.T) {
	t.Parallel()

	now := time.Unix(1_700_000_000, 0)
	c := openAt(t, &now)
	waitsFor := func() any { return c.ok("GET", "/status", "")["next_batch_waits_for"] }

	require.Equal(t, "a trainer: none is registered", waitsFor())
	c.register(8)
	require.Equal(t, "groups: 0 of 8 sequences are queued", waitsFor())
	c.ok("GET", "/batch", "")
	c.registerEnvs("0.25", "null")

	for mark, n := range []int{2, 4, 2, 4} {
		c.ok("POST", "/scored_data", groupOf(n, mark, `, "env_id": 1`))
	}

	now = now.Add(3 * time.Second)

	require.Equal(
		t,
		"groups of environment 0 (e), whose min_batch_allocation is 0.25: none is queued. It called 3s ago",
		waitsFor(),
	)
	c.ok("POST", "/scored_data", groupOf(4, 4, `, "env_id": 0`))
	require.Empty(t, waitsFor())

	c.do("GET", "/reset_data", "")
	c.register(6)

	for mark, n := range []int{3, 2, 2} {
		c.ok("POST", "/scored_data", groupOf(n, mark, ``))
	}

	require.Equal(
		t,
		"groups: 7 sequences are queued, but not a batch of 6 in whole packs of the largest group's size, 3",
		waitsFor(),
	)
}

// openAt opens a trainer API with a clock.
func openAt(t *testing.T, now *time.Time) client {
	t.Helper()

	q, err := queue.Open(queue.Options{
		Path: filepath.Join(t.TempDir(), "q"),
		Now:  func() time.Time { return *now },
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = q.Close() })

	srv := httptest.NewServer(trainerapi.New(trainerapi.Options{Queue: q, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(srv.Close)

	return client{t, srv.URL}
}

// registerEnvs registers environments with groups of two and these minimums.
func (c client) registerEnvs(minimums ...string) {
	c.t.Helper()

	for _, least := range minimums {
		c.ok(
			"POST",
			"/register-env",
			`{"max_token_length":1,"desired_name":"e","weight":1,"group_size":2,"min_batch_allocation":`+least+`}`,
		)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	q, err := queue.Open(queue.Options{Path: filepath.Join(t.TempDir(), "q")})
	require.NoError(t, err)

	defer q.Close()

	srv := httptest.NewServer(trainerapi.New(trainerapi.Options{
		Queue:   q,
		Log:     slog.New(slog.DiscardHandler),
		MaxBody: 1 << 16,
	}))
	defer srv.Close()

	c := client{t, srv.URL}
	zipped := func(text string) string {
		var out bytes.Buffer

		z := gzip.NewWriter(&out)
		_, err := z.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, z.Close())

		return out.String()
	}
	c.ok("POST", "/scored_data", zipped(groupOf(2, 1, "")), "Content-Encoding", "gzip")
	status, text := c.do("POST", "/scored_data", groupOf(2, 1, ""), "Content-Encoding", "gzip")
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "Invalid gzip payload", strings.TrimSpace(text))

	for _, body := range []string{zipped(strings.Repeat(" ", 1<<20)), strings.Repeat(" ", 1<<17)} {
		header := "identity"
		if body[0] != ' ' {
			header = "gzip"
		}

		status, _ = c.do("POST", "/scored_data", body, "Content-Encoding", header)
		require.Equal(t, http.StatusRequestEntityTooLarge, status)
	}

	require.InDelta(t, 1, c.ok("GET", "/status", "")["queue_size"], 0)
}

// Groups of a pull queue are served oldest first until they are acknowledged.
func TestPull(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}
	pulled := func(query string) (keys []string) {
		for _, g := range c.ok("GET", "/queues/q/groups"+query, "")["groups"].([]any) {
			require.Equal(t, g.(map[string]any)["key"], g.(map[string]any)["group"].(map[string]any)["n"])
			keys = append(keys, g.(map[string]any)["key"].(string))
		}

		return keys
	}
	require.Empty(t, pulled(""))

	for _, key := range []string{"a", "b", "a", "c"} {
		c.ok("POST", "/queues/q/groups", `{"n":"`+key+`"}`, "Idempotency-Key", key)
	}

	require.Equal(t, []string{"a"}, pulled(""))
	require.Equal(t, []string{"a", "b", "c"}, pulled("?max=10"))
	require.Equal(t, []string{"a", "b"}, pulled("?max=2&lease_s=60"))
	require.Equal(t, []string{"c"}, pulled("?max=2"))
	require.InDelta(t, 2, c.ok("POST", "/queues/q/ack", `{"keys":["a","a","c","x"]}`)["acknowledged"], 0)
	require.Empty(t, pulled("?max=10"), "b is leased")
	require.InDelta(t, 1, c.ok("GET", "/queues/q", "")["waiting"], 0)
	c.ok("POST", "/queues/q/groups", `{"n":"a"}`, "Idempotency-Key", "a")
	require.InDelta(t, 1, c.ok("GET", "/queues/q", "")["waiting"], 0, "acknowledged groups do not come back")

	for path, body := range map[string]string{"/queues/q/groups": `[]`, "/queues/a%20b/groups": `{}`} {
		status, _ := c.do("POST", path, body, "Idempotency-Key", "k")
		require.Equal(t, http.StatusUnprocessableEntity, status, path)
	}

	status, _ := c.do("POST", "/queues/q/groups", `{}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	status, _ = c.do("GET", "/queues/q/groups?max=0", "")
	require.Equal(t, http.StatusUnprocessableEntity, status)
}
