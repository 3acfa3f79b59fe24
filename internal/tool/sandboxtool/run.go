package sandboxtool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Time of a command.
const (
	defaultTimeout = 120 * time.Second
	maxTimeout     = 600 * time.Second
	fileTimeout    = 60 * time.Second
)

// keepBytes is how much of each end of each stream of a command is shown.
const keepBytes = 25_000

// grace is how much longer than its timeout a command may take until its result is there: the time to start it and to kill it.
const grace = 60 * time.Second

// exec runs a program in the workdir once by the id of the call. The returned message is what the policy got wrong.
func exec(ctx context.Context, env tool.Env, id string, p wire.Process, atMost time.Duration) (r wire.ExecResult, message string, err error) {
	if strings.ContainsRune(strings.Join(p.Argv, ""), 0) {
		return r, "the arguments must not hold a zero character", nil
	}
	ctx, cancel := context.WithTimeout(ctx, atMost+grace)
	defer cancel()
	p.Dir = rollout.Workdir
	p.Env = map[string]string{"LANG": "C.UTF-8", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
	p.TimeoutMillis = atMost.Milliseconds()
	r, err = env.Sandbox.Exec(ctx, execID(id), wire.Exec{Process: p})
	if fault.Is(err, fault.Invalid) {
		return r, err.Error(), nil
	}
	return r, "", err
}

// execID is the id of a call in the form that sandboxd takes.
func execID(id string) string {
	if wire.Name(id, 100) {
		return "tool-" + id
	}
	sum := sha256.Sum256([]byte(id))
	return "tool_" + hex.EncodeToString(sum[:])
}

// facts are the data of a command's result.
type facts struct {
	ExitCode        int  `json:"exit_code"`
	Timeout         bool `json:"timeout,omitempty"`
	Sandboxed       bool `json:"sandboxed"`
	NetworkIsolated bool `json:"network_isolated"`
}

func data(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs always marshal
	}
	return text
}
