package envserver_test

import (
	"bufio"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// reference starts the reference server of the release that the wire contract describes.
func reference(t *testing.T) *rig {
	t.Helper()
	python := pyclient.Interpreter(t, pyclient.Newest())
	cmd := exec.CommandContext(t.Context(), python.Path(), filepath.Join("testdata", "py", "reference.py"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns an error because the process was killed
	})

	port, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	r := &rig{t: t, url: "http://127.0.0.1:" + strings.TrimSpace(port), says: &contract{}}
	r.eventually(func() bool {
		resp, err := http.Get(r.url + "/health")
		return err == nil && resp.Body.Close() == nil
	}, "the reference answers")

	return r
}

// The reference server gives the responses in the tables of our server, except where a table says how and why it differs.
func TestTheReferenceAgrees(t *testing.T) {
	t.Parallel()
	r := reference(t)

	agree := func(t *testing.T, differs string, want []byte, got string) {
		t.Helper()

		err := mismatch(decode(t, want), withoutLinks(parsed(got)), "answer")
		if differs == "" {
			require.NoError(t, err)
		} else {
			require.Error(t, err, "it answers as we do")
		}
	}
	for _, c := range load[wireCase](t, "http.json") {
		t.Run(c.Name, func(t *testing.T) {
			status, headers, body := r.do(c.Method, c.Path, c.Body)
			for k, v := range c.Headers {
				require.Equal(t, strings.Replace(v, "<url>", r.url, 1), headers.Get(k), k)
			}

			if c.Differs == "" {
				require.Equal(t, c.Status, status, body)
			}

			if c.Want != nil {
				agree(t, c.Differs, c.Want, body)
			}
		})
	}

	for _, c := range load[wireCase](t, "rpc.json") {
		t.Run(c.Name, func(t *testing.T) {
			_, _, body := r.do("POST", "/mcp", c.Send)
			agree(t, c.Differs, c.Want, body)
		})
	}

	for _, s := range load[script](t, "ws.json") {
		t.Run(s.Name, func(t *testing.T) {
			c := r.dial("/ws")
			for _, f := range s.Frames {
				c.send(f.Send)

				if f.Closes != 0 {
					require.Equal(t, f.Closes, c.closed())
					continue
				}

				agree(t, f.Differs, f.Want, c.read())

				if strings.Contains(f.Differs, "closes") {
					c = r.dial("/ws")
				}
			}
		})
	}
}

// withoutLinks removes the links to pydantic's documentation, which the reference server's errors have and ours do not.
func withoutLinks(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if link, _ := v["url"].(string); strings.HasPrefix(link, "https://errors.pydantic.dev/") {
			delete(v, "url")
		}

		for _, e := range v {
			withoutLinks(e)
		}
	case []any:
		for _, e := range v {
			withoutLinks(e)
		}
	}

	return v
}
