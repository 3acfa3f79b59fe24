package scripted_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/scripted"
)

// server is a scripted server on a real socket with a readable log.
type server struct {
	*httptest.Server
	log *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.b.Write(p)
}

func (l *lockedBuffer) sent(t *testing.T) []scripted.Sent {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()

	var all []scripted.Sent

	for d := json.NewDecoder(bytes.NewReader(l.b.Bytes())); d.More(); {
		var s scripted.Sent
		require.NoError(t, d.Decode(&s))
		all = append(all, s)
	}

	return all
}

func serve(t *testing.T, script string) *server {
	t.Helper()

	var scripts scripted.Scripts

	if script != "" {
		var err error

		scripts, err = scripted.Load(strings.NewReader(script))
		require.NoError(t, err)
	}

	log := &lockedBuffer{}
	s := &server{httptest.NewServer(scripted.New(scripted.Options{Scripts: scripts, Log: log})), log}

	t.Cleanup(func() {
		// ends calls that hang on purpose
		s.CloseClientConnections()
		s.Close()
	})

	return s
}

type object = map[string]any

func user(text string) object { return object{"role": "user", "content": text} }

func (s *server) post(ctx context.Context, t *testing.T, body object) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", encode(t, body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer sk-secret")
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })

	return resp
}

func encode(t *testing.T, body object) io.Reader {
	t.Helper()

	b, err := json.Marshal(body)
	require.NoError(t, err)

	return bytes.NewReader(b)
}

// ask sends messages and returns the first choice and the whole reply.
func (s *server) ask(t *testing.T, messages ...object) (choice, reply object) {
	t.Helper()
	return s.askFor(t, object{"model": "m", "messages": messages, "return_token_ids": true, "logprobs": true})
}

func (s *server) askFor(t *testing.T, body object) (choice, reply object) {
	t.Helper()
	resp := s.post(t.Context(), t, body)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&reply))

	return reply["choices"].([]any)[0].(object), reply
}

// events reads a stream to its end. done reports whether [DONE] arrived, and err how the connection ended.
func events(resp *http.Response) (all []object, done bool, err error) {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<24)

	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			done = true
		default:
			var e object
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return all, done, err
			}

			all = append(all, e)
		}
	}

	return all, done, lines.Err()
}

func streamRequest(messages ...object) object {
	return object{
		"model": "m", "messages": messages, "stream": true, "stream_options": object{"include_usage": true},
		"logprobs": true, "top_logprobs": 3, "return_token_ids": true,
	}
}

func TestModelsAndUnknownPaths(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	resp, err := s.Client().Get(s.URL + "/v1/models")
	require.NoError(t, err)

	defer resp.Body.Close()

	var list struct{ Data []struct{ ID string } }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&list))
	require.Equal(t, "scripted", list.Data[0].ID)

	resp, err = s.Client().Get(s.URL + "/v1/nothing")
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.Contains(t, string(text), "no such path")
}

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()

	s := serve(t, "match: only this\nturns: [{text: hi}]")
	for want, body := range map[string]string{
		"no messages":                       `{"messages":[]}`,
		"cannot unmarshal":                  `{"messages":1}`,
		"no script matches the instruction": `{"messages":[{"role":"user","content":"other"}]}`,
	} {
		resp, err := s.Client().Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.Contains(t, string(text), want)
	}
}
