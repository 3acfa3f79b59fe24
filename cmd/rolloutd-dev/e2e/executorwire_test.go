package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// onlyRedteam skips a test that only `make redteam` runs.
func onlyRedteam(t *testing.T) {
	t.Helper()

	if os.Getenv("ROLLOUTD_REDTEAM") == "" {
		t.Skip("set ROLLOUTD_REDTEAM=1, or run deploy/suite.sh redteam-server")
	}
}

// wireCase is a request to the executor and its whole answer. The answer is that of AgentEnv's service,
// except where rolloutd differs from it.
type wireCase struct {
	name, route string
	request     args

	// 0 means 200
	status int

	// JSON; empty: any answer
	want string
}

// wireTool returns a request to /execute.
func wireTool(name, id string, arguments args) args {
	return args{"trajectory_id": "t", "tool": args{"name": name, "arguments": arguments, "uniq_id": id}}
}

func wireArtifact(path string, more args) args {
	request := args{"trajectory_id": "t", "path": path}
	for k, v := range more {
		request[k] = v
	}

	return request
}

// ranIn is the metadata in the answer to a command.
const ranIn = `"metadata":{"exit_code":%d,"sandboxed":true,"network_isolated":true}`

// wireCases returns the cases. The test sends them in order and in one trajectory.
func wireCases() []wireCase {
	ran := func(id, output string, code int) string {
		failure := ""
		if code != 0 {
			failure = fmt.Sprintf("Exit code: %d", code)
		}

		return fmt.Sprintf(
			`{"success":%t,"output":%q,"error":%q,"uniq_id":%q,`+ranIn+`}`,
			code == 0,
			output,
			failure,
			id,
			code,
		)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("on")))

	return []wireCase{
		{
			"no slot yet: read",
			"artifacts/read",
			wireArtifact("a", nil),
			0,
			unread("No active slot for trajectory (run a sandbox tool first)"),
		},
		{
			"no slot yet: list",
			"artifacts/list",
			wireArtifact("a", nil),
			0,
			unlisted("No active slot for trajectory (run a sandbox tool first)"),
		},
		{
			"no slot yet: archive",
			"artifacts/archive",
			wireArtifact("a", nil),
			0,
			unpacked("No active slot for trajectory (run a sandbox tool first)"),
		},
		{"release of an unknown trajectory", "release", args{
			"trajectory_id":   "never",
			"reset_workspace": true,
		}, 0, `{"status":"ok"}`},
		{"a command", "execute", wireTool("terminal", "1", args{"command": "echo hi"}), 0, ran("1", "hi", 0)},
		{
			"exit code and stderr",
			"execute",
			wireTool("terminal", "2", args{"command": "echo out; echo err >&2; exit 3"}),
			0,
			ran("2", "out\n[stderr]\nerr", 3),
		},
		{"stderr alone", "execute", wireTool("bash", "3", args{"command": "echo err >&2"}), 0, ran("3", "err", 0)},
		{
			"isolation is not for the caller to choose", "execute",
			wireTool("terminal", "4", args{
				"command":                  "echo same",
				"allow_network":            true,
				"require_sandbox":          false,
				"require_stateful_sandbox": false,
			}), 0, ran("4", "same", 0),
		},
		{
			"indentation is kept",
			"execute",
			wireTool("terminal", "5", args{"command": "printf '  x\\n'"}),
			0,
			ran("5", "  x", 0),
		},
		{
			"a timeout among the arguments", "execute", wireTool("terminal", "6", args{
				"command": "sleep 600",
				"timeout": 0.5,
			}), 0,
			`{"success":false,"output":"","error":"Command timed out after 1s","uniq_id":"6",
			  "metadata":{"exit_code":-1,"timeout":true,"sandboxed":true,"network_isolated":true}}`,
		},
		{
			"the request's timeout wins", "execute",
			args{
				"trajectory_id": "t",
				"timeout_s":     0.2,
				"tool": args{
					"name":      "bash",
					"arguments": args{"command": "sleep 600", "timeout": 500},
					"uniq_id":   "7",
				},
			}, 0,
			`{"success":false,"output":"","error":"Command timed out after 1s","uniq_id":"7",
			  "metadata":{"exit_code":-1,"timeout":true,"sandboxed":true,"network_isolated":true}}`,
		},
		{
			"background",
			"execute",
			wireTool("terminal", "8", args{"command": "true", "background": true}),
			0,
			`{"success":false,"output":"","error":"terminal background execution is not supported in sandbox","uniq_id":"8","metadata":{}}`,
		},
		{
			"write",
			"execute",
			wireTool("write_file", "9", args{"path": "d/one.txt", "content": "one\r\n"}),
			0,
			`{"success":true,"output":"Successfully wrote 5 bytes to d/one.txt","error":"","uniq_id":"9","metadata":{"path":"/home/user/workdir/d/one.txt","size":5}}`,
		},
		{
			"read: CRLF stays",
			"execute",
			wireTool("read_file", "10", args{"path": "d/one.txt"}),
			0,
			`{"success":true,"output":"one\r\n","error":"","uniq_id":"10","metadata":{"path":"/home/user/workdir/d/one.txt","size":5}}`,
		},
		{"read: absolute", "execute", wireTool("read_file", "11", args{"path": "/home/user/workdir/d/one.txt"}), 0, ""},
		{
			"read: missing",
			"execute",
			wireTool("read_file", "12", args{"path": "none"}),
			0,
			`{"success":false,"output":"","error":"File not found: none","uniq_id":"12","metadata":{}}`,
		},
		{
			"read: a folder",
			"execute",
			wireTool("read_file", "13", args{"path": "d"}),
			0,
			`{"success":false,"output":"","error":"Not a file: d is a directory","uniq_id":"13","metadata":{}}`,
		},
		{
			"a stateful shell",
			"execute",
			wireTool("terminal_stateful", "14", args{
				"command":       "cd d; X=1 # a comment",
				"allow_network": true,
			}),
			0,
			`{"success":true,"output":"","error":"","uniq_id":"14","metadata":{"exit_code":0,"sandboxed":true,"network_isolated":true,"stateful":true}}`,
		},
		{
			"its state",
			"execute",
			wireTool("terminal_stateful", "15", args{"command": "echo $X; ls"}),
			0,
			`{"success":true,"output":"1\none.txt","error":"","uniq_id":"15","metadata":{"exit_code":0,"sandboxed":true,"network_isolated":true,"stateful":true}}`,
		},
		{
			"tmux",
			"execute",
			wireTool("tmux", "16", args{"action": "start", "pane_width": 100, "pane_height": 30}),
			0,
			`{"success":true,"output":"started","error":"","uniq_id":"16","metadata":{"stateful":true,"pane_width":100,"pane_height":30}}`,
		},
		{"tmux keys", "execute", wireTool("tmux", "17", args{
			"action": "send_keys",
			"keys":   []string{"true", "Enter"},
			"block":  true,
		}), 0, `{"success":true,"output":"ok","error":"","uniq_id":"17","metadata":{"stateful":true,"blocked":true}}`},
		{"tmux stop", "execute", wireTool("tmux", "18", args{"action": "stop"}), 0, ""},
		{"no trajectory", "execute", args{"tool": args{"name": "bash", "uniq_id": "x"}}, 422, ""},
		{"no uniq_id", "execute", args{"trajectory_id": "t", "tool": args{"name": "bash"}}, 422, ""},
		{"no tool", "execute", args{"trajectory_id": "t"}, 422, ""},
		{"arguments that are no object", "execute", args{
			"trajectory_id": "t",
			"tool":          args{"name": "bash", "arguments": []int{1}, "uniq_id": "19"},
		}, 0, ""},

		{
			"links and an empty file",
			"execute",
			wireTool("bash", "20", args{
				"command": "ln -s /etc/passwd link; ln -s /etc linked; ln -s d/one.txt near; : > d/empty.log; printf '\\377' > bad.png",
			}),
			0,
			"",
		},
		{
			"artifact",
			"artifacts/read",
			wireArtifact("d/one.txt", args{"max_bytes": 2, "include_sha256": true}),
			0,
			`{"success":true,"content":"on","error":"","encoding":"text","truncated":true,"bytes":2,"file_size":5,"path":"d/one.txt","mime":"text/plain","sha256":"` + sum + `"}`,
		},
		{
			"artifact in base64",
			"artifacts/read",
			wireArtifact("bad.png", args{"encoding": "base64"}),
			0,
			`{"success":true,"content":"/w==","error":"","encoding":"base64","truncated":false,"bytes":1,"file_size":1,"path":"bad.png","mime":"image/png","sha256":null}`,
		},
		{
			"artifact that is no text",
			"artifacts/read",
			wireArtifact("bad.png", args{"encoding": "text"}),
			0,
			`{"success":true,"content":"\ufffd","error":"","encoding":"text","truncated":false,"bytes":1,"file_size":1,"path":"bad.png","mime":"image/png","sha256":null}`,
		},
		{
			"empty artifact",
			"artifacts/read",
			wireArtifact("d/empty.log", nil),
			0,
			`{"success":true,"content":"","error":"","encoding":"text","truncated":false,"bytes":0,"file_size":0,"path":"d/empty.log","mime":"text/plain","sha256":null}`,
		},
		{
			"artifact: missing",
			"artifacts/read",
			wireArtifact("none", nil),
			0,
			unread("Not found: none"),
		},
		{
			"artifact: a folder",
			"artifacts/read",
			wireArtifact("d", nil),
			0,
			unread("Not a file: d"),
		},
		{
			"artifact through a link", "artifacts/read", wireArtifact("near", nil), 0,
			`{"success":true,"content":"one\r\n","error":"","encoding":"text","truncated":false,"bytes":5,"file_size":5,"path":"d/one.txt","mime":"text/plain","sha256":null}`,
		},
		{"artifact: encoding", "artifacts/read", wireArtifact("d/one.txt", args{"encoding": "hex"}), 422, ""},
		{
			"artifact: outside",
			"artifacts/read",
			wireArtifact("../../../etc/passwd", nil),
			0,
			unread("Access denied: path outside workspace"),
		},
		{
			"artifact: absolute outside",
			"artifacts/read",
			wireArtifact("/etc/passwd", nil),
			0,
			unread("Access denied: path outside workspace"),
		},
		{
			"list: outside",
			"artifacts/list",
			wireArtifact("..", nil),
			0,
			unlisted("Access denied: path outside workspace"),
		},
		{
			"list: missing",
			"artifacts/list",
			wireArtifact("none", nil),
			0,
			unlisted("Not found: none"),
		},
		{
			"archive: missing",
			"artifacts/archive",
			wireArtifact("none", nil),
			0,
			unpacked("Not found: none"),
		},
		{
			"archive: outside",
			"artifacts/archive",
			wireArtifact("/", nil),
			0,
			unpacked("Access denied: path outside workspace"),
		},
		{"archive: format", "artifacts/archive", wireArtifact(".", args{"format": "zip"}), 422, ""},
		{
			"archive: too large",
			"artifacts/archive",
			wireArtifact(".", args{"max_bytes": 2}),
			0,
			unpacked("the archive is larger than max_bytes"),
		},
		{
			"archive: too many",
			"artifacts/archive",
			wireArtifact(".", args{"max_entries": 1}),
			0,
			unpacked("the archive has more files than max_entries"),
		},
		{"health", "", nil, 0, `{"status":"ok"}`},
	}
}

// The test compares the executor's answers with those of AgentEnv's service, member by member.
func TestExecutorAnswersAsAgentEnv(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	url := srv.url + "/executor/"

	ask := func(c wireCase) json.RawMessage {
		if c.request == nil {
			return json.RawMessage(get(t, url+"health"))
		}

		if c.status == 0 {
			c.status = 200
		}

		return send[json.RawMessage](t, url+c.route, c.status, c.request)
	}
	for _, c := range wireCases() {
		got := ask(c)
		if c.want != "" {
			require.JSONEq(t, c.want, string(got), c.name)
		}
	}

	for _, path := range []string{"link", "linked/passwd", "near/../../../../etc/passwd"} {
		got := send[json.RawMessage](t, url+"artifacts/read", 200, wireArtifact(path, nil))
		require.JSONEq(t, unread("Access denied: path outside workspace"), string(got), path)
	}

	requireListed(t, url)
	requireArchived(t, url)
	requireBatch(t, url)

	var status map[string]any
	require.NoError(t, json.Unmarshal([]byte(get(t, url+"status")), &status))
	require.InDelta(t, 0, status["queue_size"], 0)
	require.NotZero(t, status["total_requests"])
	require.NotZero(t, status["total_errors"])
	require.Equal(t, map[string]any{
		"total_slots":     1.0,
		"available_slots": 0.0,
		"acquired_slots":  1.0,
		"containers":      0.0,
		"slots_by_state":  map[string]any{"acquired": 1.0},
		"started":         true,
	}, status["pool"])
	require.Equal(t, args{"status": "ok"}, send[args](t, url+"release", 200, args{
		"trajectory_id":   "t",
		"reset_workspace": true,
	}))
}

// unread, unlisted and unpacked are the answers to requests that failed.
func unread(message string) string {
	return `{"success":false,"content":"","error":"` + message + `","encoding":"text","truncated":false,"bytes":0,` +
		`"file_size":null,"path":"","mime":null,"sha256":null}`
}

func unlisted(message string) string {
	return `{"success":false,"entries":[],"truncated":false,"error":"` + message + `"}`
}

func unpacked(message string) string {
	return `{"success":false,"content":"","error":"` + message + `","encoding":"base64","format":"tar.gz","bytes":0,` +
		`"entry_count":0}`
}

type folderList struct {
	Success   bool             `json:"success"`
	Entries   []map[string]any `json:"entries"`
	Truncated bool             `json:"truncated"`
	Error     string           `json:"error"`
}

func requireListed(t *testing.T, url string) {
	t.Helper()
	list := send[folderList](t, url+"artifacts/list", 200, wireArtifact("d", nil))
	require.True(t, list.Success, list.Error)
	require.False(t, list.Truncated)
	require.Len(t, list.Entries, 2)

	for _, e := range list.Entries {
		require.Len(t, e, 4)
		require.Equal(t, false, e["is_dir"])
		require.Greater(t, e["mtime"], 1e9)
		require.InDelta(t, map[any]float64{"d/one.txt": 5, "d/empty.log": 0}[e["path"]], e["size"], 0)
	}

	exact := send[folderList](t, url+"artifacts/list", 200, wireArtifact("d", args{"max_entries": 2}))
	require.False(t, exact.Truncated, "a list that fits exactly is whole")
	cut := send[folderList](t, url+"artifacts/list", 200, wireArtifact(".", args{"max_entries": 2, "recursive": true}))
	require.True(t, cut.Truncated)
	require.Len(t, cut.Entries, 2)
	require.Len(t, send[folderList](t, url+"artifacts/list", 200, wireArtifact("d/one.txt", nil)).Entries, 1)
}

func requireArchived(t *testing.T, url string) {
	t.Helper()
	got := send[map[string]any](t, url+"artifacts/archive", 200, wireArtifact("d", args{"format": "tgz"}))
	content, err := base64.StdEncoding.DecodeString(got["content"].(string))
	require.NoError(t, err)
	delete(got, "content")
	require.Equal(t, map[string]any{
		"success":     true,
		"error":       "",
		"encoding":    "base64",
		"format":      "tar.gz",
		"bytes":       float64(len(content)),
		"entry_count": 2.0,
	}, got)
	zip, err := gzip.NewReader(bytes.NewReader(content))
	require.NoError(t, err)

	names := map[string]int64{}

	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		require.NoError(t, err)

		names[h.Name] = h.Size
	}

	require.Equal(t, map[string]int64{"d/": 0, "d/one.txt": 5, "d/empty.log": 0}, names)
}

func requireBatch(t *testing.T, url string) {
	t.Helper()
	batch := send[struct{ Results []executed }](t, url+"execute_batch", 200, args{"calls": []args{
		wireTool("terminal", "b1", args{"command": "echo 1"}),
		wireTool("nope", "b2", nil),
		wireTool("terminal", "1", args{"command": "echo hi"}),
	}})
	require.Len(t, batch.Results, 3)
	require.Equal(t, "1", batch.Results[0].Output)
	require.Contains(t, batch.Results[1].Error, "unknown tool")
	require.Equal(t, "b2", batch.Results[1].UniqID)
	require.Equal(t, "hi", batch.Results[2].Output, "answered from the record")
	send[any](t, url+"execute_batch", 422, args{"calls": []args{{"trajectory_id": "t"}}})
}
