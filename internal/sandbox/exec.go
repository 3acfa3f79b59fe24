package sandbox

import (
	"context"
	"net/http"
	"net/url"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxExecAnswer bounds the answer to an Exec, in bytes: two streams, each with a head and a tail of at most
// a MiB, in base64.
const maxExecAnswer = 8 << 20

// Exec runs a command once under the id, which has 1 to 128 letters, digits, '.', '_' or '-', and returns
// its result. A repeated call with the same id attaches to the command or returns its result, and runs
// nothing. The same id with another command is a fault.Conflict. Calls run in parallel. User, environment
// and directory default as in Start.
//
// When ctx ends, the command continues until its own timeout.
func (s *Sandbox) Exec(ctx context.Context, id string, e wire.Exec) (res wire.ExecResult, err error) {
	ctx, span := s.backend.span(ctx, "sandbox.exec", s.id)
	defer func() { endSpan(span, err) }()

	e.Process = s.withDefaults(e.Process)

	for {
		res = wire.ExecResult{}
		if err := s.json(ctx, longCall(execPath(id), e), &res); err != nil || !res.Running {
			return res, err
		}
	}
}

// longCall is a request that is answered at the end of a call, or earlier with the status that it still runs.
func longCall(path string, in any) call {
	return call{
		method:    http.MethodPost,
		path:      path,
		query:     url.Values{"wait": {longPoll.String()}},
		in:        in,
		wait:      longPoll,
		maxAnswer: maxExecAnswer,
	}
}

// PTY sends a call to the shell of that name on a pseudo terminal, once under the id, and returns its
// answer. Ids are as in Exec, but separate from those of Exec. The defaults of c.Shell are those of Start.
func (s *Sandbox) PTY(ctx context.Context, name, id string, c wire.PTYCall) (a wire.PTYAnswer, err error) {
	ctx, span := s.backend.span(ctx, "sandbox.pty "+c.Action, s.id)
	defer func() { endSpan(span, err) }()

	c.Shell = s.withDefaults(c.Shell)

	for {
		a = wire.PTYAnswer{}

		path := "/v1/pty/" + url.PathEscape(name) + "/" + url.PathEscape(id)
		if err := s.json(ctx, longCall(path, c), &a); err != nil || !a.Running {
			return a, err
		}
	}
}

// DeletePTY ends the shell of that name and its descendants, and removes it. An unknown name is not an error.
func (s *Sandbox) DeletePTY(ctx context.Context, name string) error {
	return s.json(ctx, call{method: http.MethodDelete, path: "/v1/pty/" + url.PathEscape(name)}, nil)
}

// DeleteExec kills the command of a call if it still runs, and removes the call. An unknown id is not an error.
func (s *Sandbox) DeleteExec(ctx context.Context, id string) error {
	return s.json(ctx, call{method: http.MethodDelete, path: execPath(id)}, nil)
}

func execPath(id string) string { return "/v1/exec/" + url.PathEscape(id) }
