package gateway_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// A reply that could not be recorded is not sent to the agent. Nothing waits for room on the disk: after a failed sync the
// store records nothing any more.
func TestUnrecordedReplyIsNotSent(t *testing.T) {
	t.Parallel()

	for name, failure := range map[string]error{
		"a disk that is gone": errors.New("disk is gone"),
		"a full disk":         unix.ENOSPC,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, func(o *gateway.Options) { o.Trace.Sync = func(*os.File) error { return failure } })
			r := h.route(newEngine(t, says(goodReply)).URL)
			r.Limits.Held = time.Hour
			url := h.open(t, r)
			require.NoError(t, h.client.Ready(t.Context(), "vllm"))
			// the same call, repeated
			for range 2 {
				got := await(t, startSend(t, url, "a", streamed))
				require.Equal(t, http.StatusBadRequest, got.status)
				require.NotContains(t, got.body, "Hel")
				requireNoRetryWords(t, got.body)
			}

			require.Equal(t, fault.Internal, h.status(t, "r1.1").Failure.Kind)
			require.Zero(t, h.status(t, "r1.1").Turns)
			err := h.client.Ready(t.Context(), "vllm")
			require.True(t, fault.Is(err, fault.Exhausted), "a new rollout would fare no better: %v", err)
		})
	}
}

// While the disk is full, a reply is not sent and its call waits, held back. When there is room again, the
// call is recorded and answered.
func TestCallWaitsForRoomOnTheDisk(t *testing.T) {
	t.Parallel()

	var full atomic.Bool
	full.Store(true)

	h := newHost(t, func(o *gateway.Options) {
		o.Trace.Write = func(f *os.File, parts [][]byte, at int64) error {
			if full.Load() {
				return &fs.PathError{Op: "write", Path: f.Name(), Err: unix.ENOSPC}
			}

			_, err := f.WriteAt(bytes.Join(parts, nil), at)

			return err
		}
	})
	r := h.route(newEngine(t, says(goodReply)).URL)
	r.Limits.Held = time.Hour
	got := startSend(t, h.open(t, r), "", streamed)
	require.Eventually(t, func() bool { return h.status(t, r.ID).Held > 200*time.Millisecond }, patience, pollStep)
	s := h.status(t, r.ID)
	require.Nil(t, s.Failure)
	require.Contains(t, s.Trouble, "no space left")
	require.Equal(t, 1, s.InFlight)
	full.Store(false)
	require.Equal(t, goodReply, await(t, got).body)
	s = h.status(t, r.ID)
	require.Nil(t, s.Failure)
	require.Equal(t, 1, s.Turns)
	require.Len(t, h.turns(t, r.ID), 1)
	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
}

// A gateway that stops while the disk is full makes the call again after its restart.
func TestGatewayStopsOnAFullDisk(t *testing.T) {
	t.Parallel()

	var full atomic.Bool
	full.Store(true)

	h := newHost(t, func(o *gateway.Options) {
		o.Trace.Write = func(f *os.File, parts [][]byte, at int64) error {
			if full.Load() {
				return unix.ENOSPC
			}

			_, err := f.WriteAt(bytes.Join(parts, nil), at)

			return err
		}
	})
	r := h.route(newEngine(t, says(goodReply)).URL)
	r.Limits.Held = time.Hour
	startSend(t, h.open(t, r), "a", streamed)
	require.Eventually(t, func() bool { return h.status(t, r.ID).Trouble != "" }, patience, pollStep)
	h.stop()
	full.Store(false)
	h.start(t)
	require.Nil(t, h.status(t, r.ID).Failure)
	require.Equal(t, goodReply, send(t.Context(), h.channels.url(t, r.SandboxID), "a", streamed).body)
}

// The reply is synced to disk before the agent receives any part of it.
func TestRecordIsDurableBeforeDelivery(t *testing.T) {
	t.Parallel()

	syncing, release := make(chan struct{}), make(chan struct{})
	h := newHost(t, func(o *gateway.Options) {
		o.Trace.Sync = func(*os.File) error {
			syncing <- struct{}{}

			<-release

			return nil
		}
	})
	e := newEngine(t, says(goodReply))
	got := startSend(t, h.open(t, h.route(e.URL)), "", streamed)
	await(t, syncing)

	select {
	case <-got:
		require.Fail(t, "answered before the record was on disk")
	default:
	}

	close(release)
	require.Equal(t, goodReply, await(t, got).body)
}
