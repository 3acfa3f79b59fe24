package command

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// instructionFile is the path of the instruction for agents that read it from a file.
const instructionFile = "/tmp/.rolloutd/instruction.txt"

// modelName is the model's name inside sandboxes. The gateway replaces it by the endpoint's name.
const modelName = "m"

// defaultMaxTokens is {max_tokens} for a rollout without a limit.
const defaultMaxTokens = 32_000

// process is the agent's process for a job.
func (a *Agent) process(ctx context.Context, sb agent.Sandbox, job agent.Job) (wire.Process, error) {
	dir, err := a.locate(ctx, sb)
	if err != nil {
		return wire.Process{}, err
	}

	if dir == "" && a.installs() {
		return wire.Process{}, fault.New(fault.NotFound, "%s is not in the sandbox: Install comes before Open", a.Name)
	}

	if a.uses("{instruction}") && len(job.Instruction) > maxArgument {
		return wire.Process{}, fault.Field("instruction",
			"must be at most %d bytes for agent %s, which takes it as an argument; got %d",
			maxArgument, a.Name, len(job.Instruction))
	}

	fill := a.filler(dir, job)
	if err := a.writeFiles(ctx, sb, job, fill); err != nil {
		return wire.Process{}, err
	}

	p := a.inSandbox(dir, fill, a.Command)
	if !a.uses("{instruction}") && !a.uses("{instruction_file}") {
		p.Stdin = []byte(job.Instruction)
	}

	return p, nil
}

// inSandbox describes a process of the agent.
func (a *Agent) inSandbox(dir string, fill *strings.Replacer, command []string) wire.Process {
	argv := make([]string, len(command))
	for i, arg := range command {
		argv[i] = fill.Replace(arg)
	}

	env := environment(dir)
	for name, value := range a.Env {
		env[name] = fill.Replace(value)
	}

	return wire.Process{Argv: argv, Env: env, Dir: rollout.Workdir}
}

// filler replaces placeholders by their values, in one pass, because an instruction may contain braces.
func (a *Agent) filler(dir string, job agent.Job) *strings.Replacer {
	tokens := job.MaxOutput
	if tokens <= 0 {
		tokens = defaultMaxTokens
	}

	return strings.NewReplacer(
		"{dir}",
		dir,
		"{instruction}",
		job.Instruction,
		"{instruction_file}",
		instructionFile,
		"{model_url}",
		rollout.ModelURL,
		"{model_host}",
		strings.TrimSuffix(rollout.ModelURL, "/v1"),
		"{max_tokens}",
		strconv.Itoa(tokens),
		"{platform}",
		platform(a.o.Arch),
		"{arch}",
		machine(a.o.Arch),
	)
}

// environment is the environment of every agent. It has the model channel under the names that common
// client libraries use. The keys are dummies, because the gateway holds the real one.
func environment(dir string) map[string]string {
	host := strings.TrimSuffix(rollout.ModelURL, "/v1")

	path := "/usr/local/bin:/usr/bin:/bin"
	if dir != "" {
		path = dir + "/node_modules/.bin:" + dir + "/bin:" + path
	}

	return map[string]string{
		"HOME":                   rollout.Home,
		"USER":                   "user",
		"PATH":                   path,
		"TMPDIR":                 "/tmp",
		"LANG":                   "C.UTF-8",
		"TERM":                   "dumb",
		"NO_COLOR":               "1",
		"CI":                     "1",
		"OPENAI_BASE_URL":        rollout.ModelURL,
		"OPENAI_API_BASE":        rollout.ModelURL,
		"OPENAI_API_KEY":         "none",
		"OPENAI_MODEL":           modelName,
		"ANTHROPIC_BASE_URL":     host,
		"ANTHROPIC_API_KEY":      "none",
		"ANTHROPIC_MODEL":        modelName,
		"GOOGLE_GEMINI_BASE_URL": host,
		"GEMINI_API_KEY":         "none",
		"GEMINI_MODEL":           modelName,
	}
}

// writeFiles writes the agent's files, and its instruction if it reads it from a file.
func (a *Agent) writeFiles(ctx context.Context, sb agent.Sandbox, job agent.Job, fill *strings.Replacer) error {
	files := map[string]string{}
	for path, text := range a.Files {
		files[path] = fill.Replace(text)
	}

	if a.uses("{instruction_file}") {
		files[instructionFile] = job.Instruction
	}

	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := sb.WriteFile(ctx, path, strings.NewReader(files[path]), 0o644); err != nil {
			return fault.Wrap(fault.KindOf(err), err, "write %s for %s", path, a.Name)
		}
	}

	return nil
}
