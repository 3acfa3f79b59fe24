package config

import "time"

// VariableSection is a part of the variables, as the reference shows them.
type VariableSection struct {
	Title string

	// what holds for all of them; may be empty
	About     string
	Variables []Variable
}

// VariableSections lists the environment variables, without those of the model catalog and of Temporal.
func VariableSections() []VariableSection {
	return []VariableSection{
		{Title: "All roles", Variables: commonVariables()},
		{Title: "Server", Variables: serveVariables()},
		{
			Title: "Gateway",
			About: "Settings with a value \"by endpoint\" take a name or `host:port`; `default` stands for all others: " +
				"`vllm=64,default=8`.",
			Variables: gatewayVariables(),
		},
		{Title: "Worker", Variables: workerVariables()},
		{Title: "Sandboxes", Variables: sandboxVariables()},
		{Title: "Other roles and commands", Variables: otherVariables()},
		{Title: "The store", Variables: storeVariables()},
	}
}

func commonVariables() []Variable {
	return []Variable{
		{
			Name: "ROLLOUTD_DATA", Path: "data",
			Default: "`./.rolloutd`",
			About:   "folder for this host's files: key, sandboxes, gateway journal, agents, store",
			set:     text(func(c *Config) *string { return &c.Data }),
		},
		{
			Name:    "ROLLOUTD_ENCRYPTION_KEY",
			Default: "the file `key` in the data folder",
			About:   "64 hex digits, or base64 of 32 bytes; the same for all roles of a deployment",
			set:     text(func(c *Config) *string { return &c.EncryptionKey }),
		},
		{
			Name:    "ROLLOUTD_STORE_URL",
			Path:    "store.url",
			Default: "`store` in the data folder",
			About:   "folder or bucket for results, traces and logs, the same for all hosts; [which](configuration.md#the-store)",
			set:     text(func(c *Config) *string { return &c.Store.URL }),
		},
		{
			Name: "TEMPORAL_ADDRESS", Path: "temporal.address",
			Default: "`127.0.0.1:7233`",
			About: "address of Temporal; `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*` and the other variables of " +
				"Temporal's own tools apply too",
			set: text(func(c *Config) *string { return &c.Temporal.Address }),
		},
		{
			Name: "TEMPORAL_NAMESPACE", Path: "temporal.namespace",
			Default: "`default`",
			About:   "namespace in Temporal",
			set:     text(func(c *Config) *string { return &c.Temporal.Namespace }),
		},
		{
			Name: "ROLLOUTD_METRICS_LISTEN", Path: "telemetry.listen",
			Default: "`127.0.0.1:9464`",
			About: "address of `/metrics` and `/healthz`; the default port is 9465 for a worker, 9466 for a " +
				"gateway",
			set: text(func(c *Config) *string { return &c.Telemetry.Listen }),
		},
		{
			Name: "OTEL_EXPORTER_OTLP_ENDPOINT", Path: "telemetry.otlp_endpoint",
			Default: "none",
			About:   "URL of the collector of spans (OTLP over HTTP)",
			set:     text(func(c *Config) *string { return &c.Telemetry.OTLPEndpoint }),
		},
		{
			Name: "OTEL_SERVICE_NAME", Path: "telemetry.service",
			Default: "`rolloutd`",
			About:   "service name in spans",
			set:     text(func(c *Config) *string { return &c.Telemetry.Service }),
		},
	}
}

func serveVariables() []Variable {
	return []Variable{
		{
			Name: "ROLLOUTD_LISTEN", Path: "serve.listen",
			Default: "`127.0.0.1:8000`",
			About:   "address of the OpenEnv server; other addresses than loopback need tokens",
			set:     text(func(c *Config) *string { return &c.Serve.Listen }),
		},
		{
			Name: "ROLLOUTD_TOKENS", Path: "serve.tokens",
			Default: "none",
			About:   "bearer tokens, of at least 16 characters",
			set:     list(func(c *Config) *[]string { return &c.Serve.Tokens }),
		},
		{
			Name: "ROLLOUTD_TOKENS_FILE", Path: "serve.tokens_file",
			Default: "none",
			About:   "a YAML list of [tokens](edge.md#tokens); `share` of one replaces `serve.token_share`",
			set:     text(func(c *Config) *string { return &c.Serve.TokensFile }),
		},
		{
			Name: "OPENENV_SERVER_MODE", Path: "serve.mode",
			Default: "`simulation`",
			About:   "`simulation` or `production`; also the flag `--mode`",
			set:     text(func(c *Config) *string { return &c.Serve.Mode }),
		},
		{
			Name: "ENABLE_WEB_INTERFACE", Path: "serve.web",
			Default: "`true`",
			About:   "serve the page at `/web/`; it needs the same tokens as REST",
			set:     boolean(func(c *Config) *bool { return &c.Serve.Web }),
		},
		{
			Name: "ENV_README_PATH", Path: "serve.readme",
			Default: "none",
			About:   "a file that `/metadata` and the page show",
			set:     text(func(c *Config) *string { return &c.Serve.Readme }),
		},
		{
			Name: "MAX_CONCURRENT_ENVS", Path: "serve.max_sessions",
			Default: "`64`; `1024` with `task_sets`",
			About:   "maximum number of concurrent OpenEnv sessions",
			set:     number(func(c *Config) *int { return &c.Serve.MaxSessions }),
		},
		{
			Name: "ROLLOUTD_TOKEN_SHARE", Path: "serve.token_share",
			Default: "`0.5`",
			About:   "part of the sessions that one token may have if the server has several",
			set:     decimal(func(c *Config) *float64 { return &c.Serve.TokenShare }),
		},
		{
			Name: "ROLLOUTD_MAX_CONNECTIONS", Path: "serve.max_connections",
			Default: "twice the sessions, at least 1024",
			About:   "maximum number of open connections; more get 503",
			set:     number(func(c *Config) *int { return &c.Serve.MaxConnections }),
		},
		{
			Name: "ROLLOUTD_SEARCH", Path: "serve.search",
			Default: "`true`",
			About:   "keep an index of the transcripts in the data folder, for searches. `false` removes it",
			set:     boolean(func(c *Config) *bool { return &c.Serve.Search }),
		},
		{
			Name: "ROLLOUTD_SEARCH_MIB", Path: "serve.search_mib",
			Default: "`10240`",
			About: "maximum size of this index; beyond it the rollouts that ended first are no longer found. 0: " +
				"no limit",
			set: number(func(c *Config) *int { return &c.Serve.SearchMiB }),
		},
		{
			Name: "ROLLOUTD_KEEP_SESSIONS", Path: "serve.keep_sessions",
			Default: "`168h`",
			About:   "how long the store keeps an unused session and an uploaded file",
			set:     span(func(c *Config) *time.Duration { return &c.Serve.KeepSessions }),
		},
		{
			Name: "ROLLOUTD_UPLOADS_MIB", Path: "serve.uploads_mib",
			Default: "`8192`",
			About:   "maximum MiB of uploaded files in the store for one token",
			set:     number(func(c *Config) *int { return &c.Serve.UploadsMiB }),
		},
		{
			Name: "ROLLOUTD_STEP_TIMEOUT", Path: "serve.step_timeout",
			Default: "`0`",
			About: "time limit for the answer to a step over `/ws` or a `tools/call` over `/mcp`; 0: the answer " +
				"comes when the rollout ends",
			set: span(func(c *Config) *time.Duration { return &c.Serve.StepTimeout }),
		},
		{
			Name: "ROLLOUTD_HOSTS", Path: "serve.hosts",
			Default: "none",
			About: "names, beside `localhost` and the loopback addresses, by which clients may call a server " +
				"without tokens; other names get 403",
			set: list(func(c *Config) *[]string { return &c.Serve.Hosts }),
		},
		{
			Name: "ROLLOUTD_CODEC_ORIGINS", Path: "serve.codec_origins",
			Default: "the UI on port 8233; in `rolloutd-dev` on `--ui-port`",
			About:   "web origins that may decrypt Temporal's payloads",
			set:     list(func(c *Config) *[]string { return &c.Serve.CodecOrigins }),
		},
		{
			Name: "ROLLOUTD_TEMPORAL_UI", Path: "serve.temporal_ui",
			Default: "none; in `rolloutd-dev` its own UI",
			About:   "URL of Temporal's UI, such as `http://temporal:8080`, to which the page links",
			set:     text(func(c *Config) *string { return &c.Serve.TemporalUI }),
		},
		{
			Name: "ROLLOUTD_PRICES", Path: "prices",
			Default: "none",
			About: "US dollars per million prompt and completion tokens, by model: `gpt-4o-mini=0.15/0.6`; a " +
				"third number is the price of cached prompt tokens. `limits.cost` uses them if the caller sets " +
				"no `price`",
			set: prices,
		},
		{
			Name: "ROLLOUTD_TRANSLATE", Path: "translate",
			Default: "none",
			About: "endpoints, by name or `host:port`, that get every call as a chat completion " +
				"([gateway.md](gateway.md#translation-into-chat-completions))",
			set: list(func(c *Config) *[]string { return &c.Translate }),
		},
		{
			Name: "ROLLOUTD_TRAINER_API_LISTEN", Path: "trainer_api.listen",
			Default: "off",
			About: "address at which `serve` also offers the trainer API ([sinks.md](sinks.md)); `rolloutd " +
				"trainer-api` listens on `127.0.0.1:8001` by default",
			set: text(func(c *Config) *string { return &c.TrainerAPI.Listen }),
		},
		{
			Name: "ROLLOUTD_TRAINER_API_TOKENS", Path: "trainer_api.tokens",
			Default: "none",
			About:   "bearer tokens of the trainer API; other addresses than loopback need them",
			set:     list(func(c *Config) *[]string { return &c.TrainerAPI.Tokens }),
		},
	}
}

func gatewayVariables() []Variable {
	return []Variable{
		{
			Name: "ROLLOUTD_GATEWAY_LISTEN", Path: "gateway.listen",
			Default: "`127.0.0.1:7070`",
			About:   "address of the admin API",
			set:     text(func(c *Config) *string { return &c.Gateway.Listen }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_URL", Path: "gateway.url",
			Default: "from `gateway.listen`",
			About:   "its URL for this host's worker, which uses HTTP/2 even without TLS",
			set:     text(func(c *Config) *string { return &c.Gateway.URL }),
		},
		{
			Name: "ROLLOUTD_TRAINER_LISTEN", Path: "gateway.trainer_listen",
			Default: "`127.0.0.1:7071`",
			About:   "address of the trainer API of the gateway",
			set:     text(func(c *Config) *string { return &c.Gateway.TrainerListen }),
		},
		{
			Name: "ROLLOUTD_TRAINER_URL", Path: "gateway.trainer_url",
			Default: "from `gateway.trainer_listen`",
			About:   "its URL for `rolloutd upstream`",
			set:     text(func(c *Config) *string { return &c.Gateway.TrainerURL }),
		},
		{
			Name: "ROLLOUTD_TRAINER_TOKENS", Path: "gateway.trainer_tokens",
			Default: "none",
			About:   "tokens of trainers that do not have the deployment's key",
			set:     list(func(c *Config) *[]string { return &c.Gateway.TrainerTokens }),
		},
		{
			Name: "ROLLOUTD_ALLOW_HOSTS", Path: "gateway.allow_hosts",
			Default: "none; in `rolloutd-dev` loopback",
			About: "loopback, private, link-local or reserved hosts that a client's own `base_url` may name: " +
				"addresses, ranges (`10.0.0.0/8`), names (`gpu-1`), `*.domain`, each with or without `:port`. " +
				"The same for `serve` and `gateway`",
			set: list(func(c *Config) *[]string { return &c.Gateway.AllowHosts }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_REPLY", Path: "gateway.reply",
			Default: "`complete`",
			About: "`complete` forwards a stream after it is complete and recorded; `pass_through` while it " +
				"arrives",
			set: text(func(c *Config) *string { return &c.Gateway.Reply }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_KEEP_ALIVE", Path: "gateway.keep_alive",
			Default: "`0s`",
			About:   "interval of comments to an agent that waits for a stream; 0: none",
			set:     span(func(c *Config) *time.Duration { return &c.Gateway.KeepAlive }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_RAW_LOGPROBS", Path: "gateway.raw_logprobs",
			Default: "`false`",
			About: "train on turns even if the endpoint gives log probabilities from [before the " +
				"temperature](gateway.md#what-an-endpoint-gives)",
			set: boolean(func(c *Config) *bool { return &c.Gateway.RawLogprobs }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_EMPTY_REPLIES", Path: "gateway.empty_replies",
			Default: "`8`",
			About:   "[replies without any token](gateway.md#whose-reply-it-is) after which a call has failed",
			set:     number(func(c *Config) *int { return &c.Gateway.EmptyReplies }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_CALLS", Path: "gateway.calls",
			Default: "none",
			About:   "maximum number of concurrent requests, by endpoint",
			set:     parseByName(func(c *Config) *map[string]float64 { return &c.Gateway.Calls }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_RATE", Path: "gateway.rate",
			Default: "none",
			About:   "maximum number of requests per second, by endpoint",
			set:     parseByName(func(c *Config) *map[string]float64 { return &c.Gateway.Rate }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_BURST", Path: "gateway.burst",
			Default: "the requests of one second",
			About:   "size of a burst under a rate, by endpoint",
			set:     parseByName(func(c *Config) *map[string]float64 { return &c.Gateway.Burst }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_CONTINUATION", Path: "gateway.continuation",
			Default: "`auto`",
			About: "how conversations [continue](gateway.md#one-sequence-for-agents-that-speak-messages), by " +
				"endpoint: `auto`, `messages` or `required`",
			set: worded(func(c *Config) *map[string]string { return &c.Gateway.Continuation }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_USER_TURN", Path: "gateway.user_turn",
			Default: "`continue`",
			About: "the same at a user message after a final answer: `continue` by token ids, or `render` by " +
				"messages",
			set: worded(func(c *Config) *map[string]string { return &c.Gateway.UserTurn }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_CACHE_SALT", Path: "gateway.cache_salt",
			Default: "`turn`",
			About: "when calls get another [salt](weights.md#caches-of-earlier-weights) of the prefix cache, by " +
				"endpoint: `turn`, `rollout` or `off`",
			set: worded(func(c *Config) *map[string]string { return &c.Gateway.CacheSalt }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_AUDIT", Path: "gateway.audit",
			Default: "none",
			About: "share of turns that is [scored again](weights.md#audit-of-recorded-turns) in the background, " +
				"by endpoint (`vllm=0.005`)",
			set: parseByName(func(c *Config) *map[string]float64 { return &c.Gateway.Audit }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_AUDIT_DROP", Path: "gateway.audit_drop",
			Default: "`false`",
			About:   "do not train on turns that the background audit has marked",
			set:     boolean(func(c *Config) *bool { return &c.Gateway.AuditDrop }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_ON_ENGINE_FAULT", Path: "gateway.on_engine_fault",
			Default: "`keep`",
			About: "what happens to a reply with a [fault](gateway.md#faults-of-the-engine) that is provably the " +
				"engine's, by endpoint: `keep`, `mask` or `replace`",
			set: worded(func(c *Config) *map[string]string { return &c.Gateway.OnEngineFault }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_ROUTED_EXPERTS", Path: "gateway.routed_experts",
			Default: "none",
			About: "endpoints, by name, that are asked for [routed experts](training.md#routed-experts); `default`: " +
				"all",
			set: list(func(c *Config) *[]string { return &c.Gateway.RoutedExperts }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_QUEUE", Path: "gateway.queue",
			Default: "`32`",
			About:   "new rollouts wait while more calls than this wait for their endpoint; 0: no limit",
			set:     number(func(c *Config) *int { return &c.Gateway.Queue }),
		},
		{
			Name: "ROLLOUTD_GATEWAY_REPLY_MEMORY_MIB", Path: "gateway.reply_memory_mib",
			Default: "a quarter of the machine's memory, at least 1024",
			About: "maximum memory of all [replies in progress](gateway.md#what-replies-hold); set it if the " +
				"gateway may use less than the machine has",
			set: number(func(c *Config) *int { return &c.Gateway.ReplyMemoryMiB }),
		},
	}
}

func workerVariables() []Variable {
	return []Variable{
		{
			Name: "ROLLOUTD_WORKER_LISTEN", Path: "worker.listen",
			Default: "`127.0.0.1:0`",
			About: "address at which servers read this host's live events and transcripts and send the steps of " +
				"episodes; port 0 is any free port",
			set: text(func(c *Config) *string { return &c.Worker.Listen }),
		},
		{
			Name: "ROLLOUTD_WORKER_ADVERTISE", Path: "worker.advertise",
			Default: "the listener's address",
			About:   "URL at which servers reach `worker.listen`, if it listens on all addresses or behind a proxy",
			set:     text(func(c *Config) *string { return &c.Worker.Advertise }),
		},
		{
			Name: "ROLLOUTD_TOOLS_LISTEN", Path: "worker.tools_listen",
			Default: "same as `worker.listen`",
			About:   "a separate address for the steps of episodes",
			set:     text(func(c *Config) *string { return &c.Worker.ToolsListen }),
		},
		{
			Name: "ROLLOUTD_TOOLS_URL", Path: "worker.tools_url",
			Default: "from its address",
			About:   "URL at which servers reach it",
			set:     text(func(c *Config) *string { return &c.Worker.ToolsURL }),
		},
		{
			Name: "ROLLOUTD_HOST_NAME", Path: "worker.name",
			Default: "generated at the first start",
			About:   "the host's name in the deployment; the data folder stores it",
			set:     text(func(c *Config) *string { return &c.Worker.Name }),
		},
		{
			Name: "ROLLOUTD_WORKER_CAPACITY", Path: "worker.capacity",
			Default: "by memory",
			About:   "maximum number of concurrent rollouts on this host; more wait in Temporal",
			set:     number(func(c *Config) *int { return &c.Worker.Capacity }),
		},
		{
			Name: "ROLLOUTD_WORKER_TOKEN_SHARE", Path: "worker.token_share",
			Default: "`1`",
			About:   "part of a backend's slots on this host that the rollouts of one token may take",
			set:     decimal(func(c *Config) *float64 { return &c.Worker.TokenShare }),
		},
		{
			Name: "ROLLOUTD_WORKER_STARTS", Path: "worker.starts",
			Default: "one per core",
			About:   "maximum number of agents and images that start at the same time",
			set:     number(func(c *Config) *int { return &c.Worker.Starts }),
		},
		{
			Name: "ROLLOUTD_WORKER_DEPLOYMENT", Path: "worker.deployment",
			Default: "none",
			About: "name of the Temporal worker deployment: workflows then stay on the build that started them " +
				"([deployment.md](deployment.md#upgrades))",
			set: text(func(c *Config) *string { return &c.Worker.Deployment }),
		},
		{
			Name: "ROLLOUTD_SANDBOX_LEASE", Path: "worker.lease",
			Default: "`5m`",
			About:   "a sandbox ends itself if no worker renews its lease for this long (30s to 168h)",
			set:     span(func(c *Config) *time.Duration { return &c.Worker.Lease }),
		},
		{
			Name: "ROLLOUTD_AGENTS_DIR", Path: "sandbox.agents_dir",
			Default: "`agents` in the data folder",
			About:   "folder for the programs of agents, downloaded at first use; hosts of one machine may share it",
			set:     text(func(c *Config) *string { return &c.Sandbox.AgentsDir }),
		},
	}
}

func sandboxVariables() []Variable {
	return []Variable{
		{
			Name: "ROLLOUTD_SANDBOXD", Path: "sandbox.sandboxd",
			Default: "in the folder of the binary",
			About:   "path of sandboxd",
			set:     text(func(c *Config) *string { return &c.Sandbox.Sandboxd }),
		},
		{
			Name: "ROLLOUTD_SANDBOX_IMAGE", Path: "sandbox.image",
			Default: "the host's `/usr`, read-only",
			About:   "folder of the root file system",
			set:     text(func(c *Config) *string { return &c.Sandbox.Image }),
		},
		{
			Name: "ROLLOUTD_SANDBOX_MEMORY_MIB", Path: "sandbox.memory_mib",
			Default: "`2048`",
			About:   "memory of a sandbox, including its tmpfs; at least 256",
			set:     number(func(c *Config) *int { return &c.Sandbox.MemoryMiB }),
		},
		{
			Name: "ROLLOUTD_SANDBOX_WARM", Path: "sandbox.warm",
			Default: "`1`",
			About: "number of sandboxes of the backend `local` that wait for a rollout if there is room. One for " +
				"OpenCode already runs it and takes about 350 MiB; an empty one, for agents without " +
				"installation, about 3 MiB. 0: none",
			set: number(func(c *Config) *int { return &c.Sandbox.Warm }),
		},
		{
			Name: "ROLLOUTD_SANDBOX_SWAP", Path: "sandbox.swap",
			Default: "`false`",
			About: "swap out agents that wait for their model " +
				"([deployment.md](deployment.md#many-agents-that-wait))",
			set: boolean(func(c *Config) *bool { return &c.Sandbox.Swap }),
		},
		{
			Name: "ROLLOUTD_ALLOW_WEAK_SANDBOX", Path: "sandbox.allow_weak",
			Default: "`false`",
			About:   "allow root to run sandboxes without cgroup limits",
			set:     boolean(func(c *Config) *bool { return &c.Sandbox.AllowWeak }),
		},
		{
			Name: "ROLLOUTD_NETWORK_MAX", Path: "sandbox.network.max",
			Default: "none",
			About: "hosts that tasks may ask to reach: `example.org`, `*.example.org`, each with or without " +
				"`:port`, or `*`. The same for `serve` and `worker`; [network.md](network.md)",
			set: list(func(c *Config) *[]string { return &c.Sandbox.Network.Max }),
		},
		{
			Name: "ROLLOUTD_NETWORK_ALLOW_HOSTS", Path: "sandbox.network.allow_hosts",
			Default: "none",
			About:   "loopback, private and other special hosts among them, in the format of `ROLLOUTD_ALLOW_HOSTS`",
			set:     list(func(c *Config) *[]string { return &c.Sandbox.Network.AllowHosts }),
		},
		{
			Name: "ROLLOUTD_IMAGES_DIR", Path: "sandbox.images.dir",
			Default: "`images` in the data folder",
			About:   "folder for unpacked OCI images; [images.md](images.md)",
			set:     text(func(c *Config) *string { return &c.Sandbox.Images.Dir }),
		},
		{
			Name: "ROLLOUTD_IMAGES_MAX_AGE", Path: "sandbox.images.max_age",
			Default: "`0`",
			About:   "images without use for this long are removed (`720h`). 0: age removes none",
			set:     span(func(c *Config) *time.Duration { return &c.Sandbox.Images.MaxAge }),
		},
		{
			Name: "ROLLOUTD_IMAGES_MAX_GIB", Path: "sandbox.images.max_gib",
			Default: "`50`",
			About:   "maximum size of these images; the least recently used are removed. 0: no limit",
			set:     number(func(c *Config) *int { return &c.Sandbox.Images.MaxGiB }),
		},
		{
			Name: "ROLLOUTD_IMAGE_REGISTRIES", Path: "sandbox.images.registries",
			Default: "`docker.io`",
			About:   "registries from which a task's image may be pulled. The same for `serve` and `worker`",
			set:     list(func(c *Config) *[]string { return &c.Sandbox.Images.Registries }),
		},
		{
			Name: "DOCKER_HOST", Path: "sandbox.docker.host",
			Default: "`unix:///var/run/docker.sock`",
			About:   "daemon of the backend `docker`: `unix://`, `tcp://` or `ssh://`; [backends.md](backends.md)",
			set:     text(func(c *Config) *string { return &c.Sandbox.Docker.Host }),
		},
		{
			Name: "DOCKER_CERT_PATH", Path: "sandbox.docker.cert_path",
			Default: "no TLS",
			About:   "folder with `ca.pem`, `cert.pem` and `key.pem`, for a `tcp://` address",
			set:     text(func(c *Config) *string { return &c.Sandbox.Docker.CertPath }),
		},
		{
			Name: "ROLLOUTD_DOCKER_IMAGE", Path: "sandbox.docker.image",
			Default: "none",
			About:   "container image of tasks that name none",
			set:     text(func(c *Config) *string { return &c.Sandbox.Docker.Image }),
		},
		{
			Name: "ROLLOUTD_DOCKER_RUNTIME", Path: "sandbox.docker.runtime",
			Default: "the daemon's default",
			About:   "an OCI runtime of the daemon; gVisor is refused",
			set:     text(func(c *Config) *string { return &c.Sandbox.Docker.Runtime }),
		},
		{
			Name: "ROLLOUTD_DOCKER_REMOTE", Path: "sandbox.docker.remote",
			Default: "`false`",
			About: "the daemon cannot see this worker's files although it is reached by a socket: a worker in a " +
				"container",
			set: boolean(func(c *Config) *bool { return &c.Sandbox.Docker.Remote }),
		},
		{
			Name: "E2B_API_KEY", Path: "sandbox.e2b.api_key",
			Default: "none",
			About:   "key of the account of the backend `e2b`; [backends.md](backends.md)",
			set:     text(func(c *Config) *string { return &c.Sandbox.E2B.APIKey }),
		},
		{
			Name: "E2B_DOMAIN", Path: "sandbox.e2b.domain",
			Default: "`e2b.app`",
			About:   "domain of a service with E2B's API",
			set:     text(func(c *Config) *string { return &c.Sandbox.E2B.Domain }),
		},
		{
			Name: "E2B_API_URL", Path: "sandbox.e2b.api_url",
			Default: "`https://api.` and the domain",
			About:   "address of the control plane",
			set:     text(func(c *Config) *string { return &c.Sandbox.E2B.APIURL }),
		},
		{
			Name: "E2B_SANDBOX_URL", Path: "sandbox.e2b.sandbox_url",
			Default: "from the domain",
			About:   "address of all sandboxes",
			set:     text(func(c *Config) *string { return &c.Sandbox.E2B.SandboxURL }),
		},
		{
			Name: "ROLLOUTD_E2B_TEMPLATE", Path: "sandbox.e2b.template",
			Default: "none",
			About:   "sandbox template of tasks that name no image",
			set:     text(func(c *Config) *string { return &c.Sandbox.E2B.Template }),
		},
		{
			Name: "ROLLOUTD_E2B_SANDBOXES", Path: "sandbox.e2b.sandboxes",
			Default: "`10`",
			About: "maximum number of agents' sandboxes of this host; the account's quota needs room for those of " +
				"verifiers too",
			set: number(func(c *Config) *int { return &c.Sandbox.E2B.Sandboxes }),
		},
	}
}

func otherVariables() []Variable {
	return []Variable{
		{
			Name: "ROLLOUTD_MODEL_LISTEN", Path: "model.listen",
			Default: "`127.0.0.1:9099`",
			About:   "address of the scripted model",
			set:     text(func(c *Config) *string { return &c.Model.Listen }),
		},
		{
			Name: "ROLLOUTD_MODEL_SCRIPT", Path: "model.script",
			Default: "the demo's",
			About:   "YAML file with the scripted model's replies",
			set:     text(func(c *Config) *string { return &c.Model.Script }),
		},
		{
			Name: "ROLLOUTD_TOOL_SERVER_URL", Path: "tools.tool_server_url",
			Default: "none",
			About:   "URL of a tool server whose tools policies may call, or `inprocess`; [tools.md](tools.md)",
			set:     text(func(c *Config) *string { return &c.Tools.ToolServerURL }),
		},
		{
			Name: "ROLLOUTD_TOOL_SERVER_TOKEN", Path: "tool_server.token",
			Default: "none",
			About:   "bearer token of the role `toolserver`, and of the server at `tools.tool_server_url`",
			set:     text(func(c *Config) *string { return &c.ToolServer.Token }),
		},
		{
			Name: "ROLLOUTD_TOOL_SERVER_LISTEN", Path: "tool_server.listen",
			Default: "`127.0.0.1:9002`",
			About:   "address of the role `toolserver`",
			set:     text(func(c *Config) *string { return &c.ToolServer.Listen }),
		},
		{
			Name:    ServerVariable,
			Default: "`http://127.0.0.1:8000`",
			About:   "server for commands without `--server`",
			set:     unset,
		},
		{
			Name:    TokenVariable,
			Default: "none",
			About:   "bearer token of these commands",
			set:     unset,
		},
	}
}

func storeVariables() []Variable {
	return []Variable{
		{
			Name: "ROLLOUTD_STORE_ROLLOUT_MIB", Path: "store.rollout_mib",
			Default: "`4096`",
			About:   "maximum MiB that an attempt may store; a larger workspace is neither stored nor graded",
			set:     number(func(c *Config) *int { return &c.Store.RolloutMiB }),
		},
		{
			Name: "ROLLOUTD_STORE_MIN_FREE_MIB", Path: "store.min_free_mib",
			Default: "`2048`",
			About:   "with less free on the store's disk no rollout starts; no effect on a bucket",
			set:     number(func(c *Config) *int { return &c.Store.MinFreeMiB }),
		},
		{
			Name: "ROLLOUTD_STORE_MAX_MIB", Path: "store.max_mib",
			Default: "none",
			About:   "with more in the store no rollout starts; each host lists the whole bucket once a minute",
			set:     number(func(c *Config) *int { return &c.Store.MaxMiB }),
		},
	}
}
