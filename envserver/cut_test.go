package envserver_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// maskedFrame returns a client's text frame with a zero mask, which leaves the text readable.
func maskedFrame(text string) []byte {
	var b bytes.Buffer
	b.WriteByte(0x81)
	b.WriteByte(0x80 | 126)
	_ = binary.Write(&b, binary.BigEndian, uint16(len(text)))
	b.Write(make([]byte, 4))
	b.WriteString(text)

	return b.Bytes()
}

// The connection may break at any byte that the client sends or receives. After the client attaches again
// there is one rollout with one result, and it counts once.
func TestRunRolloutCutAnywhere(t *testing.T) {
	t.Parallel()
	r, _, _ := replicas(t)

	const hello = "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

	script := func(id string) []byte {
		return append(
			maskedFrame(`{"type":"reset","data":{"episode_id":"ep-`+id+`"}}`),
			maskedFrame(call("run_rollout", task(id, "x")))...)
	}

	sent := len(script("cut-000-000"))
	for at := 0; at <= sent; at += 3 {
		r.cut(t, fmt.Sprintf("cut-%03d-000", at), hello, script, at, 0)
	}

	for got := 0; got < 2000; got += 41 {
		r.cut(t, fmt.Sprintf("cut-999-%03d", got%1000+got/1000), hello, script, sent, got)
	}
}

// cut sends a part of the script, reads a part of the answers, closes the connection, and connects again.
func (r *rig) cut(t *testing.T, id, hello string, script func(string) []byte, send, read int) {
	t.Helper()

	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = c.Write(append([]byte(hello), script(id)[:send]...))
	require.NoError(t, err)

	got := 0
	for buf := make([]byte, 512); got < read; {
		n, err := c.Read(buf[:min(len(buf), read-got)])
		if got += n; err != nil {
			break
		}
	}

	require.NoError(t, c.Close())

	again := r.dial("/ws")
	if out := again.ask(
		`{"type":"reset","data":{"episode_id":"ep-` + id + `","attach":true}}`,
	); strings.Contains(out, "Unknown episode_id") {
		// the connection broke before the server received the reset
		again.ask(`{"type":"reset","data":{"episode_id":"ep-` + id + `"}}`)
	}

	require.Equal(t, id, answer(t, again.ask(call("run_rollout", task(id, "x"))))["rollout_id"])
	require.Contains(t, again.ask(`{"type":"state"}`), `"rollouts_completed":1`)
	require.NoError(t, again.Close())
}
