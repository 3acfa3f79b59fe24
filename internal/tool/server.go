package tool

import (
	"context"
	"regexp"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Source is a server of tools that do not run in the sandbox. It is safe for concurrent use.
type Source interface {
	// List returns the tools that policies may call. Its errors are infrastructure failures of this source.
	List(ctx context.Context) ([]Definition, error)
	// Call runs a call whose arguments fit the schema of the named definition. Its errors are those of Set.Call.
	Call(ctx context.Context, env Env, c Call) (Result, error)
}

// Server is a Source with its place in a registry.
type Server struct {
	// name of the toolset that has all tools of the server
	Name string
	// Toolsets are further groups of the server's tools. Missing tools are ignored.
	Toolsets []Toolset
	Source
}

// saveTime bounds saving a result.
const saveTime = 30 * time.Second

// namePattern matches the names of tools that model APIs accept.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CheckDefinition returns why a tool cannot be shown to a policy; nil: it can.
func CheckDefinition(d Definition) error {
	_, err := checkServerTool(d, nil)
	return err
}

// Bounds of the definition of a server's tool, in bytes.
const (
	maxDescription = 32 << 10
	maxParameters  = 128 << 10
)

func checkServerTool(d Definition, s Source) (*checked, error) {
	switch {
	case !namePattern.MatchString(d.Name):
		return nil, fault.New(fault.Invalid, "tool %.100q: a name has 1 to 64 letters, digits, '_' or '-'", d.Name)
	case len(d.Description) > maxDescription || len(d.Parameters) > maxParameters:
		return nil, fault.New(fault.Invalid,
			"tool %q: the description may have at most %d bytes and the schema %d, got %d and %d",
			d.Name, maxDescription, maxParameters, len(d.Description), len(d.Parameters))
	}

	return newChecked(&serverTool{definition: d, source: s})
}

// serverTool is a tool of a Source.
type serverTool struct {
	definition Definition
	source     Source
}

// Definition implements Tool.
func (t *serverTool) Definition() Definition { return t.definition }

// Call implements Tool. The result is recorded before it is returned, so that a repeated call is not made again.
func (t *serverTool) Call(ctx context.Context, env Env, c Call) (Result, error) {
	if env.Record == nil {
		return t.source.Call(ctx, env, c)
	}

	key := callKey(c.ID)

	var kept keptCall

	found, err := env.Record.Load(ctx, key, &kept)
	if err != nil {
		return Result{}, err
	}

	if found {
		return kept.result(c)
	}

	result, err := t.source.Call(ctx, env, c)
	if err != nil {
		return Result{}, err
	}
	// an unrecorded effect would happen twice
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()

	return result, env.Record.Save(saving, key, keepCall(c, result))
}
