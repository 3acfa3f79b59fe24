package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// rolloutClient is a client of one rollout over /ws, whose connections can be cut.
type rolloutClient struct {
	url, episode, rollout string
	// reading limits how many clients read a message at the same time, so that the test does not hold
	// hundreds of results in memory.
	reading chan struct{}
}

// rolloutConn is one connection of a rolloutClient.
type rolloutConn struct {
	*websocket.Conn
	bytes   *cutConn
	reading chan struct{}
}

// dial connects. The connection is cut after send bytes sent or receive bytes received, including the bytes
// of the handshake.
func (j rolloutClient) dial(ctx context.Context, send, receive int) (*rolloutConn, error) {
	cut := &cutConn{send: send, receive: receive}
	d := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error

		cut.Conn, err = (&net.Dialer{}).DialContext(ctx, network, address)

		return cut, err
	}}

	c, resp, err := d.DialContext(ctx, "ws"+strings.TrimPrefix(j.url, "http")+"/ws", nil)
	if err != nil {
		return nil, err
	}

	_ = resp.Body.Close()

	return &rolloutConn{c, cut, j.reading}, nil
}

// untilCut requests the rollout's result over a connection that is cut. The first request times out. It
// returns an error if the connection is not cut.
func (j rolloutClient) untilCut(ctx context.Context, send, receive int) error {
	c, err := j.dial(ctx, send, receive)
	if err != nil {
		// cut in the handshake
		return nil
	}
	defer c.Close()

	text, err := j.askTwice(c, func() {})
	if err == nil {
		return fmt.Errorf("not cut, but answered with %d bytes: %.300s", len(text), text)
	}

	return nil
}

// askTwice resets, requests the result with a timeout of one second and then with a long timeout, and
// returns the result. It calls asked after it has sent the second request.
func (j rolloutClient) askTwice(c *rolloutConn, asked func()) (string, error) {
	if _, err := c.ask(j.reset(false)); err != nil {
		return "", err
	}

	if text, err := c.ask(j.run(1)); err != nil || !strings.Contains(text, `"error_type":"timeout"`) {
		return text, err
	}

	if err := c.WriteJSON(j.run(patienceS)); err != nil {
		return "", err
	}

	asked()

	return c.read()
}

// reconnect connects after a cut, sends the question and returns the text of the tool result. It attaches
// to its episode if the server has the episode.
func (j rolloutClient) reconnect(ctx context.Context, question any) (string, error) {
	c, err := j.dial(ctx, unbounded, unbounded)
	if err != nil {
		return "", err
	}
	defer c.Close()

	reply, err := c.ask(j.reset(true))
	if err == nil && strings.Contains(reply, "Unknown episode_id") {
		_, err = c.ask(j.reset(false))
	}

	if err != nil {
		return "", err
	}

	if reply, err = c.ask(question); err != nil {
		return "", err
	}

	text, err := resultOf(reply)
	if err != nil {
		return "", err
	}

	counted, err := c.ask(args{"type": "state"})
	if err == nil && !strings.Contains(counted, `"rollouts_completed":1`) {
		err = fmt.Errorf("counted otherwise than once: %s", counted)
	}

	return text, err
}

// patienceS is a timeout_s that is longer than any rollout of these tests.
const patienceS = 900

func (j rolloutClient) reset(attach bool) args {
	data := args{"episode_id": j.episode}
	if attach {
		data["attach"] = true
	}

	return args{"type": "reset", "data": data}
}

func (j rolloutClient) run(seconds int) args {
	return step("run_rollout", args{
		"instruction": "take ages",
		"endpoint":    "scripted",
		"rollout_id":  j.rollout,
	}, seconds)
}

func (j rolloutClient) finalize() args {
	return step("finalize_rollout", args{"rollout_id": j.rollout, "wait_s": patienceS}, patienceS)
}

func step(tool string, a args, seconds int) args {
	return args{"type": "step", "data": args{"tool_name": tool, "metadata": args{"timeout_s": seconds}, "arguments": a}}
}

func (c *rolloutConn) ask(frame any) (string, error) {
	if err := c.WriteJSON(frame); err != nil {
		return "", err
	}

	return c.read()
}

func (c *rolloutConn) read() (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(patienceS * time.Second))

	_, message, err := c.NextReader()
	if err != nil {
		return "", err
	}

	c.reading <- struct{}{}
	defer func() { <-c.reading }()

	var text strings.Builder

	_, err = io.Copy(&text, message)

	return text.String(), err
}

// resultOf returns the text of a tool result from a reply over /ws.
func resultOf(reply string) (string, error) {
	var frame struct {
		Data struct {
			Observation struct {
				Result *struct {
					Data string `json:"data"`
				} `json:"result"`
			} `json:"observation"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(reply), &frame); err != nil {
		return "", err
	}

	if frame.Data.Observation.Result == nil {
		return "", errors.New(reply)
	}

	return frame.Data.Observation.Result.Data, nil
}
