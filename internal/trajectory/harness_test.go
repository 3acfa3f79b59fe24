package trajectory_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
	"github.com/stretchr/testify/require"
)

func turnRecord(turn int, id string) *trace.Record {
	return &trace.Record{
		Head: trace.Head{
			Turn:         turn,
			CallID:       id,
			Kind:         rollout.KindAgent,
			Lineage:      "ses_1",
			FinishReason: "stop",
			Usage:        rollout.Usage{Turns: 1, PromptTokens: 3, CompletionTokens: 2},
			Began:        time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
			Latency:      1500 * time.Millisecond,
			FirstByte:    time.Second,
			Status:       200,
			Tries:        1,
		},
		Request: []byte(
			`{"model":"m","messages":[{"role":"user","content":"<é>"}],"tools":[{"type":"function"}],"temperature":1.0,"seed":7}`,
		),
		Reply: []byte(
			"data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"ok\"},\"logprobs\":{\"content\":[{\"token\":\"o\",\"logprob\":-1},{\"token\":\"k\",\"logprob\":-0.5}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		),
		PromptTokenIDs: []int32{1, 2, math.MaxInt32},
		TokenIDs:       []int32{10, 11},
		Logprobs:       []float64{-1, -0.5},
	}
}

func openLog(t *testing.T) *trace.Log {
	t.Helper()
	s, err := trace.Open(t.TempDir(), trace.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return s.Log("k")
}

func turnsOf(t *testing.T, l *trace.Log) []rollout.Turn {
	t.Helper()

	var out bytes.Buffer
	require.NoError(t, trajectory.Export(l, &out, trajectory.ExportOptions{}))

	return decodeTurns(t, &out)
}

func decodeTurns(t *testing.T, lines io.Reader) []rollout.Turn {
	t.Helper()

	var turns []rollout.Turn

	for d := json.NewDecoder(lines); ; {
		var turn rollout.Turn

		err := d.Decode(&turn)
		if errors.Is(err, io.EOF) {
			return turns
		}

		require.NoError(t, err)

		turns = append(turns, turn)
	}
}
