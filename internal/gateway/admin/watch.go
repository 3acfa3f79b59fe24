package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// watchWrite bounds the write of changes. A slow reader is disconnected; it asks again and gets what it missed.
const watchWrite = 15 * time.Second

// watch sends the changes of the routes that the request's body names, until the body ends, the client
// disconnects or the gateway stops.
func (a *API) watch(w http.ResponseWriter, req *http.Request) error {
	conn := http.NewResponseController(w)
	if err := conn.EnableFullDuplex(); err != nil {
		return fault.Wrap(fault.Internal, err, "watch routes")
	}

	w.Header().Set("Content-Type", "application/jsonl")
	w.WriteHeader(http.StatusOK)

	changes := gateway.NewFeed(a.gateway)
	defer changes.Close()

	ctx, cancel := a.gateway.Serving(req.Context())

	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()

		if err := readWatches(req.Body, changes); err != nil {
			a.log.Warn("watch of routes ended", "error", err)
		}
	})
	sendChanges(ctx, changes, w, conn)
	// ends the read; without a deadline the client's disconnect ends it
	_ = conn.SetReadDeadline(time.Now())

	reading.Wait()

	return nil
}

// readWatches starts and ends watches. It returns an error for a command that it cannot read, and nil at
// the end of the body.
func readWatches(body io.Reader, f *gateway.Feed) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, gatewayapi.MaxWatchCommand)

	for lines.Scan() {
		var c gatewayapi.WatchCommand
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fault.Wrap(fault.Invalid, err, "command")
		}

		if c.Route == "" {
			f.Remove(c.Watch)
			continue
		}

		if err := f.Add(c.Watch, c.Route, c.Since,
			min(time.Duration(c.PauseMS)*time.Millisecond, maxWait)); err != nil {
			return err
		}
	}

	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fault.New(fault.Invalid, "a command is longer than %d bytes", gatewayapi.MaxWatchCommand)
	}
	// the client disconnected
	return nil
}

// sendChanges writes changes until ctx ends or a write fails.
func sendChanges(ctx context.Context, f *gateway.Feed, w io.Writer, conn *http.ResponseController) {
	for err := conn.Flush(); err == nil; {
		var changes []gatewayapi.WatchChange
		if changes, err = f.Next(ctx); err != nil {
			return
		}

		var lines bytes.Buffer

		out := json.NewEncoder(&lines)
		for _, c := range changes {
			// strings and numbers always encode
			_ = out.Encode(c)
		}

		_ = conn.SetWriteDeadline(time.Now().Add(watchWrite))
		if _, err = w.Write(lines.Bytes()); err == nil {
			err = conn.Flush()
		}

		_ = conn.SetWriteDeadline(time.Time{})
	}
}
