package sandboxtool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// shellName is the name of the stateful shell that the tools terminal_stateful and tmux share.
const shellName = "main"

// ptyCall makes one call to the shell.
func ptyCall(
	ctx context.Context,
	env tool.Env,
	id string,
	c wire.PTYCall,
	atMost time.Duration,
) (a wire.PTYAnswer, message string, err error) {
	ctx, cancel := context.WithTimeout(ctx, atMost+grace)
	defer cancel()

	c.Shell = wire.Process{
		// Without history expansion (+H): a "!" in a command is text, as in a script.
		Argv: []string{
			"bash", "--noprofile", "--norc", "-i", "+H",
		}, Dir: rollout.Workdir, Env: map[string]string{"LANG": "C.UTF-8"},
	}

	a, err = env.Sandbox.PTY(ctx, shellName, execID(id), c)
	if err != nil {
		message, err = blame(err)
		return a, message, err
	}

	return a, a.Error, nil
}

// stateful is a tool that runs commands in one stateful shell.
type stateful struct{}

// Definition implements tool.Tool.
func (stateful) Definition() tool.Definition {
	return definition(
		"terminal_stateful",
		"Run a bash command in a shell that keeps its state between calls: working directory, variables, "+
			"functions, jobs. A command that runs out of time is stopped; the shell lives on. Use tmux for programs that need keys.",
		`"command":{"type":"string","description":"The command to run"},`+timeoutProperty,
		"command",
	)
}

// Call implements tool.Tool.
func (stateful) Call(ctx context.Context, env tool.Env, c tool.Call) (tool.Result, error) {
	var a struct {
		Command string
		Timeout float64
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tool.Failed(err.Error()), nil
	}

	atMost := seconds(a.Timeout, defaultTimeout)

	answer, message, err := ptyCall(ctx, env, c.ID, wire.PTYCall{
		Action: wire.PTYRun, Command: a.Command, TimeoutMillis: atMost.Milliseconds(),
	}, atMost)
	if err != nil || message != "" {
		return tool.Failed(message), err
	}

	return stateOf(env, answer, atMost), nil
}

func stateOf(env tool.Env, answer wire.PTYAnswer, atMost time.Duration) tool.Result {
	f := struct {
		facts
		Stateful bool `json:"stateful"`
	}{factsOf(env, answer.ExitCode), true}
	f.Timeout = answer.TimedOut

	r := tool.Result{Content: plainOutput(answer.Output), Data: data(f)}
	switch {
	case answer.TimedOut && answer.Ended:
		r.Message = fmt.Sprintf(
			"Command timed out after %gs and could not be stopped alone: the shell was ended and its state is lost",
			atMost.Seconds(),
		)
	case answer.TimedOut:
		r.Message = fmt.Sprintf("Command timed out after %gs and was stopped", atMost.Seconds())
	case answer.Ended:
		r.Message = fmt.Sprintf("The shell has ended with exit code %d; the next call starts another", answer.ExitCode)
	case answer.ExitCode != 0:
		r.Message = fmt.Sprintf("Exit code: %d", answer.ExitCode)
	}

	r.Error = r.Message != "" && (!answer.Ended || answer.ExitCode != 0)
	if !r.Error && r.Message != "" {
		r.Content, r.Message = joinLines(r.Content, r.Message), ""
	}

	return r
}

func joinLines(a, b string) string {
	if a == "" {
		return b
	}

	return a + "\n" + b
}

// plainOutput returns a terminal's output for display.
func plainOutput(o wire.Output) string {
	o.Head, o.Tail = []byte(plain(string(o.Head))), []byte(plain(string(o.Tail)))
	return shown(o)
}

// seconds returns a time that the policy asked for, within bounds.
func seconds(n float64, usual time.Duration) time.Duration {
	if n <= 0 {
		return usual
	}

	return time.Duration(min(n, maxTimeout.Seconds()) * float64(time.Second))
}
