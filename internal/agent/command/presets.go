package command

// Presets describe well-known agents, at versions that are tested with the gateway. An operator's
// description of the same name replaces one.
func Presets() []Spec { return []Spec{codex(), claudeCode(), qwenCode(), geminiCLI()} }

// aDay, in milliseconds, disables the agents' own timeouts. The gateway bounds calls: a call may wait for a
// busy model, and its reply arrives only when it is complete.
const aDay = "86400000"

// codex is OpenAI's Codex CLI. It calls the Responses API. Its own sandbox is off, because it runs in one;
// its tools for people, plugins, subagents and the web are off as well.
func codex() Spec {
	command := []string{
		"{dir}/node_modules/@openai/codex/vendor/{arch}-unknown-linux-musl/bin/codex", "exec", "--json",
		"--color", "never", "--ephemeral", "--skip-git-repo-check",
		"--dangerously-bypass-approvals-and-sandbox",
	}
	for _, feature := range []string{
		"multi_agent", "goals", "apps", "plugins", "unbounded_connection_retries", "image_generation",
		"skill_search", "tool_suggest", "hooks",
	} {
		command = append(command, "--disable", feature)
	}

	for _, setting := range []string{
		"web_search=disabled", "project_doc_max_bytes=0", "analytics.enabled=false", "model_provider=rollout",
		`model_providers.rollout={name="rollout",base_url="{model_url}",wire_api="responses",env_key="OPENAI_API_KEY",` +
			`request_max_retries=0,stream_max_retries=0,stream_idle_timeout_ms=` + aDay + `,supports_websockets=false}`,
	} {
		command = append(command, "-c", setting)
	}

	return Spec{
		Name: "codex", Package: "@openai/codex@0.169.0-{platform}",
		Integrity: map[string]string{
			"linux-x64":   "sha512-o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww==",
			"linux-arm64": "sha512-NZ/DaQUpcQmxmqee7Z9uC1rzw3GhSbooawcaTe1LN5Yk+WlinUKGdTXJgClRT/9ogQEEM9TWxYzvxPfj5G/xFg==",
		},
		Command: append(command, "--model", modelName, "-"),
		Result:  `"type":"turn\.completed"`,
	}
}

// claudeCode is Anthropic's Claude Code. It calls the Messages API. Its bare mode makes no auxiliary calls
// and has three tools: Bash, Read and Edit.
func claudeCode() Spec {
	return Spec{
		Name: "claude-code", Package: "@anthropic-ai/claude-code-{platform}@2.1.330",
		Integrity: map[string]string{
			"linux-x64":   "sha512-9Gn+V7DtJ8M1nztP9CeDVl9g3RtrepI7rOFTyPRRnZe8D6zebIHKmC7OvBauucuAP0X0k85SDN/LPVZyjsGezQ==",
			"linux-arm64": "sha512-V4yanAY5EA5UpwwRPtjSfqDbNqAlUJeVn3NYZw2AgmRHjdpSsLtHAzbxRXfkAnbjwTXzE0uedjQxUY02ARPcsA==",
		},
		Command: []string{
			"{dir}/node_modules/@anthropic-ai/claude-code-{platform}/claude", "--bare", "--print", "--model",
			modelName, "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions",
			"--disable-slash-commands", "--no-session-persistence",
		},
		Env: map[string]string{ //nolint:gosec // G101: a variable with TOKENS in its name is no credential
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
			"DISABLE_AUTOUPDATER":                      "1",
			"IS_SANDBOX":                               "1",
			"CLAUDE_CONFIG_DIR":                        "/tmp/.claude",
			"CLAUDE_CODE_MAX_RETRIES":                  "0",
			"API_TIMEOUT_MS":                           aDay,
			"CLAUDE_CODE_MAX_OUTPUT_TOKENS":            "{max_tokens}",
		},
		Failure: `"type":"result".*"is_error":true|"is_error":true.*"type":"result"`,
		Result:  `"type":"result"`,
	}
}

// qwenCode is Alibaba's Qwen Code. It calls chat completions, and needs Node.js in the image.
func qwenCode() Spec {
	return Spec{
		Name:    "qwen-code",
		Package: "@qwen-code/qwen-code@0.24.4",
		Integrity: map[string]string{
			"any": "sha512-pmexy/Nj+BKd3Un1ogqGQE8V4GJn5B6N9PQOrU1GH+lMR29kn6Bgf6YdbZa8hNIoTmAKT1LTPK+P8TibZRPPVg==",
		},
		Check: []string{"node", "--version"},
		Command: []string{
			"node", "{dir}/node_modules/@qwen-code/qwen-code/cli.js", "--yolo", "--output-format",
			"stream-json",
		},
		Env: map[string]string{
			"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1", "QWEN_TELEMETRY_ENABLED": "false",
			"QWEN_CODE_SYSTEM_SETTINGS_PATH": "/tmp/.qwen-settings.json",
		},
		Files: map[string]string{"/tmp/.qwen-settings.json": `{
  "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "tools": {"exclude": ["agent", "web_fetch"]},
  "model": {"generationConfig": {"timeout": ` + aDay + `, "maxRetries": 0, "samplingParams": {"max_tokens": {max_tokens}}}}
}
`},
		Failure: `"type":"result".*"is_error":true`,
		Result:  `"type":"result"`,
	}
}

// geminiCLI is Google's Gemini CLI. It calls Google's API, which the gateway translates into chat
// completions, and needs Node.js in the image. Its telemetry, updates, web tools and retries are off.
func geminiCLI() Spec {
	return Spec{
		Name:    "gemini-cli",
		Package: "@google/gemini-cli@0.61.0",
		Integrity: map[string]string{
			"any": "sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ==",
		},
		Check: []string{"node", "--version"},
		Command: []string{
			"node", "{dir}/node_modules/@google/gemini-cli/bundle/gemini.js", "--yolo", "--skip-trust",
			"--output-format", "stream-json", "--model", modelName,
		},
		Env: map[string]string{
			"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_TRUST_WORKSPACE": "true",
			"GEMINI_CLI_HOME": "/tmp/.gemini-cli", "GEMINI_EXP": "/tmp/.gemini-cli/experiments.json",
		},
		Files: map[string]string{
			// The request timeout in seconds. It can be set only as an experiment; the default is 60.
			"/tmp/.gemini-cli/experiments.json": `{"flags": [{"flagId": 45773134, "intValue": "86400"}]}`,
			"/tmp/.gemini-cli/.gemini/settings.json": `{
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 1, "retryFetchErrors": false},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "tools": {"exclude": ["google_web_search", "web_fetch"]}
}
`,
		},
		Failure: `"type":"result".*"status":"error"`,
		Result:  `"type":"result"`,
	}
}
