package eventlog_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

var target = rollout.Target{RolloutID: "r", Attempt: 2}

func open(t *testing.T, folder string) *eventlog.Logs {
	t.Helper()

	l, err := eventlog.Open(folder, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	return l
}

func ids(t *testing.T, l *eventlog.Log) (all []int64, kinds []rollout.EventKind) {
	t.Helper()

	text, err := io.ReadAll(l.Reader())
	require.NoError(t, err)
	events, err := eventlog.Parse(text)
	require.NoError(t, err)

	for _, e := range events {
		all, kinds = append(all, e.ID), append(kinds, e.Kind)
	}

	return all, kinds
}

// Events are numbered in order, and an event with a key is logged once. This also holds for the next
// process, which finds a torn line at the end of the file.
func TestAppend(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	log := open(t, folder).Of(target)
	log.Append(rollout.EventPhase, "a", 1)
	log.Append(rollout.EventPhase, "a", 1)
	log.Append(rollout.EventText, "", 2)

	path := filepath.Join(folder, "r.2.jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"id":2000003,"kind":"text","da`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	logs := open(t, folder)
	log, err = logs.Find(target)
	require.NoError(t, err)
	log.Append(rollout.EventPhase, "a", 1)
	log.Append(rollout.EventTurn, "b", strings.Repeat("x", 40))
	got, kinds := ids(t, log)
	require.Equal(t, []int64{2000001, 2000002, 2000003}, got)
	require.Equal(t, []rollout.EventKind{rollout.EventPhase, rollout.EventText, rollout.EventTurn}, kinds)

	_, err = logs.Find(rollout.Target{RolloutID: "other", Attempt: 1})
	require.True(t, fault.Is(err, fault.NotFound))
	_, err = logs.Find(rollout.Target{RolloutID: "../r", Attempt: 2})
	require.True(t, fault.Is(err, fault.NotFound))
	require.NoError(t, logs.Forget(target, time.Unix(0, 0)))
	require.FileExists(t, path)
	require.NoError(t, logs.Forget(target, time.Now().Add(time.Hour)))
	require.NoFileExists(t, path)
	require.NoError(t, logs.Remove(target))
}

// The log is bounded, however much text an agent produces. It marks the truncation and has space left for
// the host's events.
func TestFullLog(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	log := open(t, folder).Of(target)

	big := strings.Repeat("x", 100<<10)
	for range 200 {
		log.Append(rollout.EventText, "", big)
	}

	log.Append(rollout.EventText, "", strings.Repeat("x", eventlog.MaxEvent+1))
	log.Append(rollout.EventGrade, "grade", 1)
	_, kinds := ids(t, log)
	require.Equal(t, []rollout.EventKind{rollout.EventTruncated, rollout.EventGrade}, kinds[len(kinds)-2:])
	require.Less(t, len(kinds), 170)

	info, err := os.Stat(filepath.Join(folder, "r.2.jsonl"))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(17<<20))

	log = open(t, t.TempDir()).Of(target)
	log.Append(rollout.EventGrade, "", strings.Repeat("x", eventlog.MaxEvent+1))
	text, err := io.ReadAll(log.Reader())
	require.NoError(t, err)
	require.Contains(t, string(text), `"bytes":131075`)
}

// A reader gets the existing events, then each event as it is appended, and the end of the log.
func TestStream(t *testing.T) {
	t.Parallel()
	logs := open(t, t.TempDir())
	log := logs.Of(target)
	log.Append(rollout.EventText, "", 1)
	log.Append(rollout.EventText, "", 2)

	lines := make(chan string, 10)

	ended := make(chan error, 1)
	go func() {
		ended <- log.Stream(t.Context(), 2000001, func(b []byte) error {
			lines <- string(b)
			return nil
		})
	}()

	require.Equal(t, `{"id":2000002,"kind":"text","data":2}`+"\n", <-lines)
	log.Append(rollout.EventText, "", 3)
	require.Equal(t, `{"id":2000003,"kind":"text","data":3}`+"\n", <-lines)
	require.NoError(t, logs.Remove(target))
	require.NoError(t, <-ended)
	log.Append(rollout.EventText, "", 4)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, logs.Of(target).Stream(ctx, 0, nil), context.Canceled)
}

// A nil Logs accepts all calls and does nothing.
func TestNoLogs(t *testing.T) {
	t.Parallel()

	var logs *eventlog.Logs

	log := logs.Of(target)
	log.Append(rollout.EventText, "", 1)
	log.End()
	require.Zero(t, log.Stamp())
	require.NoError(t, logs.Remove(target))
	require.NoError(t, logs.Forget(target, time.Now()))
	_, err := logs.Find(target)
	require.Error(t, err)
}
