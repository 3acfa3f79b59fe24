package hostapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	dialTimeout = 5 * time.Second

	// bounds the wait for the header of an answer
	answerTimeout = 10 * time.Second

	// time without a sign after which a stream counts as broken
	silence = 3 * alive

	// bytes
	maxTranscript = 64 << 20

	// bytes
	maxFailure = 64 << 10
)

// Client calls the hosts of a deployment. It is safe for concurrent use. Its errors are faults: Unavailable
// when a host does not answer or has announced no address, else the kind that the host gave.
type Client struct {
	store *store.Store
	token string

	// id of the deployment's key
	keyID string
	http  *http.Client
}

// NewClient makes a client of the hosts that announce themselves in the store.
func NewClient(s *store.Store, key seal.Key) *Client {
	return &Client{store: s, token: key.Token(purpose), keyID: key.ID(), http: &http.Client{Transport: &http.Transport{
		DialContext:           lostconn.Dialer(dialTimeout).DialContext,
		ResponseHeaderTimeout: answerTimeout,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       time.Minute,
	}}}
}

// Transcript returns the latest transcript of an attempt whose agent works; fault.NotFound when there is none.
func (c *Client) Transcript(ctx context.Context, host string, t rollout.Target) (rollout.Transcript, error) {
	var latest rollout.Transcript

	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()

	res, err := c.get(ctx, host, t, "transcript")
	if err != nil {
		return latest, err
	}
	defer res.Body.Close()

	err = json.NewDecoder(io.LimitReader(res.Body, maxTranscript)).Decode(&latest)

	return latest, fault.Wrap(fault.Unavailable, err, "transcript of host %q", host)
}

// Events calls emit with the events of an attempt after an id, as they happen, until the attempt has ended on its host.
func (c *Client) Events(
	ctx context.Context,
	host string,
	t rollout.Target,
	after int64,
	emit func([]rollout.Event) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	res, err := c.get(ctx, host, t, fmt.Sprintf("events?after=%d", after))
	if err != nil {
		return err
	}
	defer res.Body.Close()

	quiet := time.AfterFunc(silence, func() { cancel(errors.New("the host sent nothing for too long")) })
	defer quiet.Stop()

	stream := bufio.NewReaderSize(res.Body, 4<<10)
	for {
		batch, err := readBatch(stream)

		quiet.Reset(silence)

		whole := bytes.HasSuffix(batch, []byte(end))

		events, bad := eventlog.Parse(bytes.TrimSuffix(batch, []byte(end)))
		if bad != nil {
			return fault.Wrap(fault.Internal, bad, "events of host %q", host)
		}

		if len(events) > 0 {
			if err := emit(events); err != nil {
				return err
			}
		}

		if whole {
			return nil
		}

		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "events of host %q", host)
		}
	}
}

// maxLine bounds a line of an event, in bytes.
const maxLine = 2 * eventlog.MaxEvent

// readBatch reads the whole lines that have arrived, at least one, without blank ones.
func readBatch(r *bufio.Reader) ([]byte, error) {
	var batch []byte

	for {
		line, err := r.ReadSlice('\n')

		batch = append(batch, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(batch) < maxLine+maxLine:
			continue
		case err != nil:
			return batch[:bytes.LastIndexByte(batch, '\n')+1], err
		case r.Buffered() == 0 || len(batch) > maxLine:
			return bytes.TrimLeft(batch, "\n"), nil
		}
	}
}

func (c *Client) get(ctx context.Context, host string, t rollout.Target, what string) (*http.Response, error) {
	at, err := c.store.Host(ctx, host)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "address of host %q", host)
	}

	return c.call(ctx, at, http.MethodGet,
		fmt.Sprintf("/rollouts/%s/attempts/%d/%s", url.PathEscape(t.RolloutID), t.Attempt, what))
}

// call sends a request without a body to a host, and returns an answer with status 200.
func (c *Client) call(ctx context.Context, at store.HostRecord, method, path string) (*http.Response, error) {
	if err := Reachable(at, at.URL); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "address of host %q", at.ID)
	}

	req, err := http.NewRequestWithContext(ctx, method, at.URL+path, http.NoBody)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "address of host %q", at.ID)
	}

	req.Header.Set("Authorization", "Bearer "+c.token)

	res, err := c.http.Do(req)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "host %q", at.ID)
	}

	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()

	var f failure
	if err := json.NewDecoder(io.LimitReader(res.Body, maxFailure)).Decode(&f); err != nil || !f.Kind.Known() {
		return nil, fault.New(fault.Unavailable, "host %q answered %s", at.ID, res.Status)
	}

	return nil, fault.New(f.Kind, "host %q: %s", at.ID, f.Message)
}
