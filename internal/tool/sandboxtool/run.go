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

// Time limits of a command.
const (
	defaultTimeout = 120 * time.Second
	maxTimeout     = 600 * time.Second
	fileTimeout    = 60 * time.Second
)

// keepBytes is the size of each shown end of each stream of a command.
const keepBytes = 25_000

// grace is the additional time for the result of a command after its timeout: to start and to kill it.
const grace = 60 * time.Second

// exec runs a program in the workdir once by the id of the call. The returned message is the reason of a
// failure that the policy or its remaining processes caused.
func exec(
	ctx context.Context,
	env tool.Env,
	id string,
	p wire.Process,
	atMost time.Duration,
) (r wire.ExecResult, message string, err error) {
	if strings.ContainsRune(strings.Join(p.Argv, ""), 0) {
		return r, "the arguments must not contain a zero character", nil
	}

	ctx, cancel := context.WithTimeout(ctx, atMost+grace)
	defer cancel()

	p.Dir = rollout.Workdir
	p.Env = map[string]string{"LANG": "C.UTF-8", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
	p.TimeoutMillis = atMost.Milliseconds()
	r, err = env.Sandbox.Exec(ctx, execID(id), wire.Exec{Process: p})
	message, err = blame(err)

	return r, message, err
}

// blame turns an error of the sandbox into a message if the policy caused it: wrong arguments, or a program
// that could not start because the policy's processes used up memory, processes or disk, or stopped or
// killed it. Otherwise a policy could discard an attempt by causing such an error. Any other error is an
// infrastructure failure.
func blame(err error) (message string, infrastructure error) {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Exhausted, fault.OutOfMemory, fault.OutOfDisk, fault.Timeout:
		return err.Error(), nil
	default:
		return "", err
	}
}

// execID returns the id of a call in sandboxd's form.
func execID(id string) string {
	if wire.Name(id, 100) {
		return "tool-" + id
	}

	sum := sha256.Sum256([]byte(id))

	return "tool_" + hex.EncodeToString(sum[:])
}

// facts is the data of a command's result.
type facts struct {
	ExitCode        int  `json:"exit_code"`
	Timeout         bool `json:"timeout,omitempty"`
	Sandboxed       bool `json:"sandboxed"`
	NetworkIsolated bool `json:"network_isolated"`
}

func factsOf(env tool.Env, exitCode int) facts {
	return facts{ExitCode: exitCode, Sandboxed: true, NetworkIsolated: !env.Networked}
}

func data(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		// plain structs always marshal
		panic(err)
	}

	return text
}
