package envserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// about calls a tool with a rollout's id and returns the JSON text of its result.
func (s socket) about(tool, id string) string {
	s.t.Helper()
	reply := object(s.t, s.ask(call(tool, map[string]any{"rollout_id": id})))

	return valueAt(s.t, reply, "data", "observation", "result", "data").(string)
}

func TestGetState(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws")
	c.ask(call("start_rollout", task("r", waits, "task_id", "t")))

	const format = `{"rollout_id":"r","task_id":"t","status":"%s","serve_session_id":"ses_1","proxy_turns_so_far":2,"error":null,` +
		`"started_at":1700000000.5,"finished_at":%s,"phase":"%s","attempt":1,"outcome":"%s","reward":null}`
	require.JSONEq(t, fmt.Sprintf(format, "running", "null", "running_agent", ""), c.about("get_state", "r"))
	r.fake.finish("r")
	require.JSONEq(t, fmt.Sprintf(format, "done", "1700000060.5", "done", "completed"), c.about("get_state", "r"))
	require.JSONEq(t, `{"rollout_id":"x","status":"unknown"}`, c.about("get_state", "x"))
}

func TestGetMessages(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws")
	require.JSONEq(
		t,
		`{"rollout_id":"x","messages":[],"status":"unknown","serve_session_id":"","error":"unknown rollout_id: x"}`,
		c.about("get_messages", "x"),
	)
	c.ask(call("start_rollout", task("r", waits)))
	require.JSONEq(
		t,
		`{"rollout_id":"r","messages":[],"status":"running","serve_session_id":"ses_1","note":"no transcript yet"}`,
		c.about("get_messages", "r"),
	)
	r.fake.said("r", "hello")
	require.JSONEq(
		t,
		`{"rollout_id":"r","messages":[{"info":{"role":"assistant"},"parts":["hello"]}],"status":"running","serve_session_id":"ses_1"}`,
		c.about("get_messages", "r"),
	)
	c.ask(call("start_rollout", task("silent", waits)))
	c.about("abort_rollout", "silent")
	require.Equal(t, "the agent left no transcript", object(t, c.about("get_messages", "silent"))["note"])
}

func TestAbortRollout(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws")
	require.JSONEq(t, `{"rollout_id":"x","aborted":false,"reason":"unknown"}`, c.about("abort_rollout", "x"))
	c.ask(call("start_rollout", task("r", waits)))
	require.JSONEq(t, `{"rollout_id":"r","aborted":true}`, c.about("abort_rollout", "r"))
	require.JSONEq(t, `{"rollout_id":"r","aborted":false,"reason":"already done"}`, c.about("abort_rollout", "r"))
	require.Equal(t, "aborted", object(t, c.about("finalize_rollout", "r"))["outcome"])
}

func TestFinalizeRollout(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws")
	unknown := object(t, c.about("finalize_rollout", "x"))
	require.Equal(t, "unknown rollout_id: x", unknown["error"])
	require.Equal(t, []any{}, unknown["proxy_turns"], "typed clients want lists, not nulls")
	c.ask(call("start_rollout", task("r", waits)))
	// a repeated call gets the same answer
	for range 2 {
		late := answer(t, c.ask(call("finalize_rollout", map[string]any{"rollout_id": "r", "wait_s": 0.01})))
		require.Equal(t, "timeout waiting for rollout_id=r", late["error"])
		require.EqualValues(t, -1, late["exit_code"])
		require.Nil(t, late["reward"])
	}

	r.fake.finish("r")
	// other sessions get the same result
	for range 2 {
		require.EqualValues(t, 0.5, object(t, r.dial("/ws").about("finalize_rollout", "r"))["reward"])
	}
}

func TestCallLimitBoundsFinalize(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.StepTimeout = 2 * time.Second })
	c := r.dial("/ws")
	c.ask(call("start_rollout", task("r", waits)))
	require.Equal(t, "timeout waiting for rollout_id=r", object(t, c.about("finalize_rollout", "r"))["error"])
}

func TestStepTimeoutBoundsTheCall(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws")
	reply := c.ask(`{"type":"step","data":{"tool_name":"run_rollout","metadata":{"timeout_s":1.5},
		"arguments":{"instruction":"wait","endpoint":"vllm","rollout_id":"r"}}}`)
	failed := valueAt(t, object(t, reply), "data", "observation", "error")
	require.Equal(t, "timeout", valueAt(t, failed, "error_type"))
	require.Contains(
		t,
		valueAt(t, failed, "message"),
		`timed out after 1.5 seconds; rollout r goes on: call finalize_rollout with rollout_id "r"`,
	)
	require.False(t, r.fake.aborted("r"))
}

func TestTheSameIDIsTheSameRollout(t *testing.T) {
	t.Parallel()

	r := start(t)
	for range 3 {
		require.Equal(t, "r", answer(t, r.dial("/ws").ask(call("run_rollout", task("r", "x"))))["rollout_id"])
	}

	require.Equal(t, 1, r.fake.count())
}

func TestARolloutCountsOnceInItsSession(t *testing.T) {
	t.Parallel()
	r := start(t)

	c := r.dial("/ws")
	for range 2 {
		c.ask(call("run_rollout", task("a", "x")))
	}

	c.ask(call("run_rollout", task("b", "x")))
	require.EqualValues(t, 2, valueAt(t, object(t, c.ask(`{"type":"state"}`)), "data", "rollouts_completed"))
}

func TestKeysAreSealed(t *testing.T) {
	t.Parallel()
	r := start(t)
	answer(t, r.dial("/ws").ask(call("run_rollout", map[string]any{
		"instruction": "x", "base_url": "http://m/v1", "api_key": "sk-1", "model": "m", "rollout_id": "r"})))
	spec, _ := r.fake.spec("r")
	require.Equal(t, "sealed(sk-1)", spec.Model.SealedKey)
}
