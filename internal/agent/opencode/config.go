package opencode

import (
	"encoding/json"
	"maps"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The model's name inside the sandbox. It is neutral on purpose: OpenCode picks system prompt, tools and sampling by
// substrings of the model id.
const (
	providerID = "rollout"
	modelID    = "m"
)

// config is OpenCode's configuration for a job, as JSON.
func config(job agent.Job) string {
	model := map[string]any{"name": modelID}
	if job.MaxOutput > 0 {
		// Context 0 is "not known": with a number OpenCode would summarise the session when it thinks it is full.
		model["limit"] = map[string]int{"context": 0, "output": job.MaxOutput}
	}
	text, err := json.Marshal(map[string]any{
		"model":      providerID + "/" + modelID,
		"share":      "disabled",
		"autoupdate": false,
		"snapshot":   false,
		"permission": permissions(job.ObeyProject),
		// A summary in the middle would cut the trajectory in two and cost calls that the task does not need.
		"compaction": map[string]bool{"auto": false, "prune": false},
		"agent":      map[string]any{"title": map[string]bool{"disable": true}},
		"provider": map[string]any{providerID: map[string]any{
			"npm":  "@ai-sdk/openai-compatible",
			"name": providerID,
			"options": map[string]any{
				"baseURL": rollout.ModelURL,
				"apiKey":  "none", // the gateway holds the real one
				// The gateway bounds calls. OpenCode's own bounds would end a call that waits for a busy model,
				// and then ask again.
				"headerTimeout": false,
				"chunkTimeout":  false,
			},
			"models": map[string]any{modelID: model},
		}},
	})
	if err != nil {
		panic(err) // maps of strings, numbers and bools always encode
	}
	return string(text)
}

// refused are the tools that need a person or the internet, and sub-agents, whose calls would not be part of the one
// trajectory.
func refused(obeyProject bool) []string {
	tools := []string{"question", "webfetch", "task"}
	if !obeyProject {
		tools = append(tools, "skill") // there are none
	}
	return tools
}

// permissions never ask: an ask blocks the server without end.
func permissions(obeyProject bool) map[string]string {
	p := map[string]string{"*": "allow"}
	for _, tool := range refused(obeyProject) {
		p[tool] = "deny"
	}
	return p
}

// sessionRules say the same once more for the session itself, where they outrank what a project's own configuration (or one
// of its agents) asks for. The last rule that matches wins.
func sessionRules(obeyProject bool) []map[string]string {
	rules := []map[string]string{{"permission": "*", "pattern": "*", "action": "allow"}}
	for _, tool := range refused(obeyProject) {
		rules = append(rules, map[string]string{"permission": tool, "pattern": "*", "action": "deny"})
	}
	return rules
}

// runtimeOptions are options of OpenCode's JavaScript engine: some 15 % less CPU in a short session and in a long one. A session's code runs too
// seldom to earn back what optimising it costs. Without FTL the dearest compiler is left out; the other one, DFG, takes only code that stays hot.
func runtimeOptions() map[string]string {
	const optimizeAfter = "30000" // 1000 by default; a call adds 15, a round of a loop 1
	return map[string]string{
		"BUN_JSC_useFTLJIT":                           "0",
		"BUN_JSC_thresholdForOptimizeAfterWarmUp":     optimizeAfter,
		"BUN_JSC_thresholdForOptimizeAfterLongWarmUp": optimizeAfter,
		"BUN_JSC_thresholdForOptimizeSoon":            optimizeAfter,
	}
}

// environment is the exact environment of the agent's process, and so of every command the agent runs: nothing secret.
func environment(dir string, job agent.Job) map[string]string {
	env := map[string]string{
		"HOME":   rollout.Home,
		"USER":   "user",
		"PATH":   "/usr/local/bin:/usr/bin:/bin", // needs a shell and rg
		"TMPDIR": "/tmp",
		"LANG":   "C.UTF-8",

		"OPENCODE_CONFIG_CONTENT": config(job),
		// An empty catalogue of models: 35 % less CPU at start and 190 MB less memory than the whole one.
		"OPENCODE_MODELS_PATH":             dir + "/" + modelsFile,
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
