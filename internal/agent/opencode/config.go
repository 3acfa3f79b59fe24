package opencode

import (
	"encoding/json"
	"maps"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The model's name inside the sandbox. It is neutral because OpenCode chooses system prompt, tools and
// sampling by substrings of the model id.
const (
	providerID = "rollout"
	modelID    = "m"
)

// config is OpenCode's configuration for a job, as JSON.
func config(job agent.Job) string {
	model := map[string]any{
		"name": modelID,
		// Without these OpenCode refuses every image to the agent. The gateway replaces the images for a model that
		// sees none: what a model sees is not known when a warm sandbox is made.
		"attachment": true,
		"modalities": map[string][]string{"input": {"text", "image"}, "output": {"text"}},
	}
	if job.MaxOutput > 0 {
		// Context 0 means unknown. With a number OpenCode would summarize the session when it estimates
		// that the context is full.
		model["limit"] = map[string]int{"context": 0, "output": job.MaxOutput}
	}

	settings := map[string]any{
		"model":      providerID + "/" + modelID,
		"share":      "disabled",
		"autoupdate": false,
		"snapshot":   false,
		"permission": permissions(job),
		// A summary would split the trajectory and cost extra calls.
		"compaction": map[string]bool{"auto": false, "prune": false},
		"agent":      map[string]any{"title": map[string]bool{"disable": true}},
		"provider": map[string]any{providerID: map[string]any{
			"npm":  "@ai-sdk/openai-compatible",
			"name": providerID,
			"options": map[string]any{
				"baseURL": rollout.ModelURL,
				"apiKey":  "none", // the gateway holds the real one
				// The gateway bounds calls. OpenCode's own timeouts would cancel and repeat a call that
				// waits for a busy model.
				"headerTimeout": false,
				"chunkTimeout":  false,
			},
			"models": map[string]any{modelID: model},
		}},
	}
	if len(job.MCPServers) > 0 {
		settings["mcp"] = mcpServers(job.MCPServers)
	}

	if job.Skills != "" {
		settings["skills"] = map[string]any{"paths": []string{job.Skills}}
	}

	text, err := json.Marshal(settings)
	if err != nil {
		// maps of strings, numbers and bools always encode
		panic(err)
	}

	return string(text)
}

// deniedTools are the tools that need a person or the internet, and subagents, whose calls would not be
// part of the trajectory.
func deniedTools(job agent.Job) []string {
	tools := []string{"question", "webfetch", "task"}
	if !job.ObeyProject && job.Skills == "" {
		// skills are disabled
		tools = append(tools, "skill")
	}

	return tools
}

// permissions never use "ask", which would block the server forever.
func permissions(job agent.Job) map[string]string {
	p := map[string]string{"*": "allow"}
	for _, tool := range deniedTools(job) {
		p[tool] = "deny"
	}

	return p
}

// sessionRules repeat the permissions for the session, where they take precedence over the configuration of
// a project or its agents. The last matching rule wins.
func sessionRules(job agent.Job) []map[string]string {
	rules := []map[string]string{{"permission": "*", "pattern": "*", "action": "allow"}}
	for _, tool := range deniedTools(job) {
		rules = append(rules, map[string]string{"permission": tool, "pattern": "*", "action": "deny"})
	}

	return rules
}

// runtimeOptions configure OpenCode's JavaScript engine. They save about 15 % of CPU in short and long
// sessions: a session's code runs too rarely to repay its optimisation. They disable FTL, the most
// expensive compiler, and let DFG compile only code that stays hot.
func runtimeOptions() map[string]string {
	// 1000 by default; a call adds 15, a loop iteration 1
	const optimizeAfter = "30000"

	return map[string]string{
		"BUN_JSC_useFTLJIT":                           "0",
		"BUN_JSC_thresholdForOptimizeAfterWarmUp":     optimizeAfter,
		"BUN_JSC_thresholdForOptimizeAfterLongWarmUp": optimizeAfter,
		"BUN_JSC_thresholdForOptimizeSoon":            optimizeAfter,
	}
}

// environment is the complete environment of the agent's process, and so of every command that the agent
// runs. It has no secrets.
func environment(dir string, job agent.Job) map[string]string {
	env := map[string]string{
		"HOME":   rollout.Home,
		"USER":   "user",
		"PATH":   "/usr/local/bin:/usr/bin:/bin", // needs a shell and rg
		"TMPDIR": "/tmp",
		"LANG":   "C.UTF-8",

		"OPENCODE_CONFIG_CONTENT": config(job),
		// An empty model catalog saves 35 % of CPU at the start and 190 MB of memory.
		"OPENCODE_MODELS_PATH":             dir + "/" + binary.ModelsFile,
		"OPENCODE_DISABLE_MODELS_FETCH":    "1",
		"OPENCODE_DISABLE_AUTOUPDATE":      "1",
		"OPENCODE_DISABLE_FFF":             "1", // leaves a 5 MB file in /tmp otherwise
		"OPENCODE_PURE":                    "1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		"OPENCODE_DB":                      ":memory:",
	}
	maps.Copy(env, runtimeOptions())

	if !job.ObeyProject {
		env["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
		env["OPENCODE_DISABLE_EXTERNAL_SKILLS"] = "1"
	}

	return env
}
