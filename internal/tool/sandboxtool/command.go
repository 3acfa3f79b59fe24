package sandboxtool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// command is a tool that runs a shell command in a fresh shell.
type command struct {
	definition tool.Definition

	// followed by the command
	shell []string
}

const timeoutProperty = `"timeout":{"type":"integer","minimum":1,"description":"Seconds until the command is killed, at most 600; default 120"}`

func terminal() tool.Tool {
	return command{
		definition(
			"terminal",
			"Run a shell command in the workspace. Each call runs in a fresh POSIX shell (sh); files persist between calls, "+
				"the working directory and variables do not. Returns stdout and stderr.",
			`"command":{"type":"string","description":"The command to run"},`+timeoutProperty+
				`,"background":{"type":"boolean","description":"Not supported in the sandbox"}`,
			"command",
		),
		[]string{"sh", "-c"},
	}
}

func bash() tool.Tool {
	return command{
		definition(
			"bash",
			"Run a bash command in the workspace. Each call runs in a fresh shell; files persist between calls, "+
				"the working directory and variables do not. Returns stdout and stderr.",
			`"command":{"type":"string","description":"The command to run"},`+timeoutProperty,
			"command",
		),
		[]string{"bash", "--noprofile", "--norc", "-c"},
	}
}

// Definition implements tool.Tool.
func (t command) Definition() tool.Definition { return t.definition }

// Call implements tool.Tool.
func (t command) Call(ctx context.Context, env tool.Env, c tool.Call) (tool.Result, error) {
	var a struct {
		Command string

		// 10.0 is an integer to JSON schema
		Timeout    float64
		Background bool
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tool.Failed(err.Error()), nil
	}

	if a.Background {
		return tool.Failed("terminal background execution is not supported in sandbox"), nil
	}

	atMost := seconds(a.Timeout, defaultTimeout)
	argv := append(append([]string{}, t.shell...), a.Command)

	r, message, err := exec(ctx, env, c.ID, wire.Process{Argv: argv, KeepBytes: keepBytes}, atMost)
	if err != nil || message != "" {
		return tool.Failed(message), err
	}

	return commandResult(env, r, atMost), nil
}

// commandResult returns the result of a finished command.
func commandResult(env tool.Env, r wire.ExecResult, atMost time.Duration) tool.Result {
	f := factsOf(env, r.ExitCode)

	result := tool.Result{Content: both(r.Stdout, r.Stderr)}
	switch {
	case r.TimedOut:
		f.ExitCode, f.Timeout = -1, true
		result.Error, result.Message = true, fmt.Sprintf("Command timed out after %gs", atMost.Seconds())
	case r.ExitCode != 0:
		result.Error, result.Message = true, fmt.Sprintf("Exit code: %d", r.ExitCode)
	}

	result.Data = data(f)

	return result
}
