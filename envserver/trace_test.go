package envserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// Training libraries read a trace in both formats: numpy reads the arrays, openenv and TRL's worker read the turns.
func TestTrainersReadATrace(t *testing.T) {
	t.Parallel()
	python := pyclient.Interpreter(t, pyclient.Trainer())
	r := start(t)
	r.fake.left = exported(t, session())
	r.begin("r1")
	python.Run(t, filepath.Join("testdata", "py", "export.py"), r.url, "r1", "4")
}

func TestTraceFormats(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.begin("r1")
	status, _, out := r.do("GET", "/rollouts/r1/trace?format=parquet", "")
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, out, `must be jsonl, npz or atif, got \"parquet\"`)
	status, _, out = r.do("GET", "/rollouts/r1/trace?format=npz", "")
	require.Equal(t, http.StatusInternalServerError, status, "what is left is no trace")
	require.Contains(t, out, "trace after 0 turns")
}

// The arrays of a rollout without a model call are empty.
func TestEmptyTraceAsArrays(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fake.left = "\n"
	r.begin("r1")
	status, headers, out := r.do("GET", "/rollouts/r1/trace?format=npz", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "application/zip", headers.Get("Content-Type"))
	require.Contains(t, out, "\x93NUMPY")
}

// begin starts a rollout that ends at once.
func (r *rig) begin(id string) {
	r.t.Helper()

	body, err := json.Marshal(task(id, "x"))
	require.NoError(r.t, err)
	status, _, out := r.do("POST", "/rollouts", string(body))
	require.Equal(r.t, http.StatusAccepted, status, out)
}

// exported returns the trace of the records as JSON lines.
func exported(t *testing.T, records []*trace.Record) string {
	t.Helper()
	store, err := trace.Open(t.TempDir(), trace.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })

	log := store.Log("r1.1")

	for i, rec := range records {
		rec.Turn, rec.CallID, rec.Lineage = i+1, fmt.Sprint("call-", i+1), "ses_é"
		rec.Began, rec.Latency, rec.Tries = time.Unix(1700000000, 0), time.Duration(i+1)*time.Second/7, 1
		require.NoError(t, log.Append(rec))

		if rec.Complete() {
			require.NoError(t, log.Delivered(rec.Turn))
		}
	}

	var out bytes.Buffer
	require.NoError(t, trajectory.Export(log, &out, trajectory.ExportOptions{}))

	return out.String()
}

// session has every case that arrays and trainers must distinguish: a foreign call, a prompt that extends
// the last one and one that does not, a broken call, and an endpoint that returns log probabilities without
// token ids.
func session() []*trace.Record {
	title := said(rollout.KindTitle, []int32{1, 2}, "token", 50)
	first := said(rollout.KindAgent, []int32{1, 2, 3}, "token_id:10", 10)
	second := said(rollout.KindAgent, []int32{1, 2, 3, 10, 4}, "token_id:11", 11)
	broken := said(rollout.KindAgent, []int32{1, 2, 3, 10, 4, 11, 5}, "x", 12)
	broken.Broken, broken.Reply, broken.TokenIDs, broken.Logprobs, broken.Status = "failed: no answer", nil, nil, nil, http.StatusBadGateway
	rewritten := said(rollout.KindAgent, []int32{1, 2, 99, 4, 11, 5}, "half a character \xf0", 13)
	rewritten.ModelVersion, rewritten.Engine = "7..8", "http://10.0.0.2:8000/v1"
	without := said(rollout.KindAgent, nil, "x", 14)
	without.TokenIDs = nil
	last := said(rollout.KindAgent, []int32{1, 2, 99, 4, 11, 5, 13, 6}, "token_id:14", 14)

	return []*trace.Record{title, first, second, broken, rewritten, without, last}
}

// said returns a record of a reply with one token and a tool call.
func said(kind rollout.TurnKind, prompt []int32, token string, id int32) *trace.Record {
	reply := `{"choices":[{"message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}]},` +
		`"logprobs":{"content":[{"token":"` + token + `","logprob":-0.1}]},"finish_reason":"tool_calls"}]}`

	return &trace.Record{
		Head: trace.Head{
			Kind:         kind,
			FinishReason: "tool_calls",
			Status:       http.StatusOK,
			Usage:        rollout.Usage{PromptTokens: int64(len(prompt)), CompletionTokens: 1},
		},
		Request: []byte(
			`{"messages":[{"role":"user","content":"go"}],"tools":[{"type":"function","function":{"name":"bash"}}]}`,
		),
		Reply:          []byte(reply),
		PromptTokenIDs: prompt,
		TokenIDs:       []int32{id},
		Logprobs:       []float64{-0.1 / float64(id)},
	}
}
