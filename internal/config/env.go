package config

import (
	"errors"
	"fmt"
	"time"
)

// Variable is an environment variable that sets a setting.
type Variable struct {
	Name string

	// path of the setting in the file; empty if the file cannot set it
	Path string
	set  func(*Config, string) error
}

// Variables of the commands that call a server. They are not settings of a role.
const (
	ServerVariable = "ROLLOUTD_SERVER"
	TokenVariable  = "ROLLOUTD_TOKEN"
)

// Variables lists the environment variables, without those of the model catalog and of Temporal.
func Variables() []Variable {
	return []Variable{
		{"ROLLOUTD_DATA", "data", text(func(c *Config) *string { return &c.Data })},
		{"ROLLOUTD_ENCRYPTION_KEY", "", text(func(c *Config) *string { return &c.EncryptionKey })},
		{"ROLLOUTD_LISTEN", "serve.listen", text(func(c *Config) *string { return &c.Serve.Listen })},
		{"OPENENV_SERVER_MODE", "serve.mode", text(func(c *Config) *string { return &c.Serve.Mode })},
		{"ENABLE_WEB_INTERFACE", "serve.web", boolean(func(c *Config) *bool { return &c.Serve.Web })},
		{"ENV_README_PATH", "serve.readme", text(func(c *Config) *string { return &c.Serve.Readme })},
		{"MAX_CONCURRENT_ENVS", "serve.max_sessions", number(func(c *Config) *int { return &c.Serve.MaxSessions })},
		{"ROLLOUTD_TOKEN_SHARE", "serve.token_share", decimal(func(c *Config) *float64 { return &c.Serve.TokenShare })},
		{
			"ROLLOUTD_MAX_CONNECTIONS", "serve.max_connections",
			number(func(c *Config) *int { return &c.Serve.MaxConnections }),
		},
		{
			"ROLLOUTD_KEEP_SESSIONS", "serve.keep_sessions",
			span(func(c *Config) *time.Duration { return &c.Serve.KeepSessions }),
		},
		{"ROLLOUTD_SEARCH", "serve.search", boolean(func(c *Config) *bool { return &c.Serve.Search })},
		{"ROLLOUTD_SEARCH_MIB", "serve.search_mib", number(func(c *Config) *int { return &c.Serve.SearchMiB })},
		{"ROLLOUTD_UPLOADS_MIB", "serve.uploads_mib", number(func(c *Config) *int { return &c.Serve.UploadsMiB })},
		{
			"ROLLOUTD_STEP_TIMEOUT", "serve.step_timeout",
			span(func(c *Config) *time.Duration { return &c.Serve.StepTimeout }),
		},
		{"ROLLOUTD_TOKENS", "serve.tokens", list(func(c *Config) *[]string { return &c.Serve.Tokens })},
		{"ROLLOUTD_TOKENS_FILE", "serve.tokens_file", text(func(c *Config) *string { return &c.Serve.TokensFile })},
		{"ROLLOUTD_HOSTS", "serve.hosts", list(func(c *Config) *[]string { return &c.Serve.Hosts })},
		{
			"ROLLOUTD_CODEC_ORIGINS", "serve.codec_origins",
			list(func(c *Config) *[]string { return &c.Serve.CodecOrigins }),
		},
		{"TEMPORAL_ADDRESS", "temporal.address", text(func(c *Config) *string { return &c.Temporal.Address })},
		{"TEMPORAL_NAMESPACE", "temporal.namespace", text(func(c *Config) *string { return &c.Temporal.Namespace })},
		{"ROLLOUTD_GATEWAY_LISTEN", "gateway.listen", text(func(c *Config) *string { return &c.Gateway.Listen })},
		{"ROLLOUTD_GATEWAY_URL", "gateway.url", text(func(c *Config) *string { return &c.Gateway.URL })},
		{
			"ROLLOUTD_TRAINER_LISTEN", "gateway.trainer_listen",
			text(func(c *Config) *string { return &c.Gateway.TrainerListen }),
		},
		{"ROLLOUTD_TRAINER_URL", "gateway.trainer_url", text(func(c *Config) *string { return &c.Gateway.TrainerURL })},
		{
			"ROLLOUTD_TRAINER_TOKENS", "gateway.trainer_tokens",
			list(func(c *Config) *[]string { return &c.Gateway.TrainerTokens }),
		},
		{
			"ROLLOUTD_ALLOW_HOSTS", "gateway.allow_hosts",
			list(func(c *Config) *[]string { return &c.Gateway.AllowHosts }),
		},
		{"ROLLOUTD_GATEWAY_REPLY", "gateway.reply", text(func(c *Config) *string { return &c.Gateway.Reply })},
		{
			"ROLLOUTD_GATEWAY_KEEP_ALIVE", "gateway.keep_alive",
			span(func(c *Config) *time.Duration { return &c.Gateway.KeepAlive }),
		},
		{
			"ROLLOUTD_GATEWAY_RAW_LOGPROBS", "gateway.raw_logprobs",
			boolean(func(c *Config) *bool { return &c.Gateway.RawLogprobs }),
		},
		{
			"ROLLOUTD_GATEWAY_EMPTY_REPLIES", "gateway.empty_replies",
			number(func(c *Config) *int { return &c.Gateway.EmptyReplies }),
		},
		{
			"ROLLOUTD_GATEWAY_CALLS", "gateway.calls",
			named(func(c *Config) *map[string]float64 { return &c.Gateway.Calls }),
		},
		{
			"ROLLOUTD_GATEWAY_RATE", "gateway.rate",
			named(func(c *Config) *map[string]float64 { return &c.Gateway.Rate }),
		},
		{
			"ROLLOUTD_GATEWAY_BURST", "gateway.burst",
			named(func(c *Config) *map[string]float64 { return &c.Gateway.Burst }),
		},
		{
			"ROLLOUTD_GATEWAY_CONTINUATION", "gateway.continuation",
			worded(func(c *Config) *map[string]string { return &c.Gateway.Continuation }),
		},
		{
			"ROLLOUTD_GATEWAY_CACHE_SALT", "gateway.cache_salt",
			worded(func(c *Config) *map[string]string { return &c.Gateway.CacheSalt }),
		},
		{
			"ROLLOUTD_GATEWAY_USER_TURN", "gateway.user_turn",
			worded(func(c *Config) *map[string]string { return &c.Gateway.UserTurn }),
		},
		{
			"ROLLOUTD_GATEWAY_ON_ENGINE_FAULT", "gateway.on_engine_fault",
			worded(func(c *Config) *map[string]string { return &c.Gateway.OnEngineFault }),
		},
		{
			"ROLLOUTD_GATEWAY_AUDIT", "gateway.audit",
			named(func(c *Config) *map[string]float64 { return &c.Gateway.Audit }),
		},
		{
			"ROLLOUTD_GATEWAY_AUDIT_DROP", "gateway.audit_drop",
			boolean(func(c *Config) *bool { return &c.Gateway.AuditDrop }),
		},
		{"ROLLOUTD_GATEWAY_QUEUE", "gateway.queue", number(func(c *Config) *int { return &c.Gateway.Queue })},
		{
			"ROLLOUTD_GATEWAY_REPLY_MEMORY_MIB", "gateway.reply_memory_mib",
			number(func(c *Config) *int { return &c.Gateway.ReplyMemoryMiB }),
		},
		{"ROLLOUTD_WORKER_LISTEN", "worker.listen", text(func(c *Config) *string { return &c.Worker.Listen })},
		{"ROLLOUTD_WORKER_ADVERTISE", "worker.advertise", text(func(c *Config) *string { return &c.Worker.Advertise })},
		{"ROLLOUTD_HOST_NAME", "worker.name", text(func(c *Config) *string { return &c.Worker.Name })},
		{
			"ROLLOUTD_WORKER_TOKEN_SHARE", "worker.token_share",
			decimal(func(c *Config) *float64 { return &c.Worker.TokenShare }),
		},
		{"ROLLOUTD_WORKER_CAPACITY", "worker.capacity", number(func(c *Config) *int { return &c.Worker.Capacity })},
		{"ROLLOUTD_WORKER_STARTS", "worker.starts", number(func(c *Config) *int { return &c.Worker.Starts })},
		{
			"ROLLOUTD_TOOLS_LISTEN", "worker.tools_listen",
			text(func(c *Config) *string { return &c.Worker.ToolsListen }),
		},
		{
			"ROLLOUTD_WORKER_DEPLOYMENT", "worker.deployment",
			text(func(c *Config) *string { return &c.Worker.Deployment }),
		},
		{"ROLLOUTD_TOOLS_URL", "worker.tools_url", text(func(c *Config) *string { return &c.Worker.ToolsURL })},
		{"ROLLOUTD_SANDBOX_LEASE", "worker.lease", span(func(c *Config) *time.Duration { return &c.Worker.Lease })},
		{"ROLLOUTD_SANDBOXD", "sandbox.sandboxd", text(func(c *Config) *string { return &c.Sandbox.Sandboxd })},
		{"ROLLOUTD_SANDBOX_IMAGE", "sandbox.image", text(func(c *Config) *string { return &c.Sandbox.Image })},
		{
			"ROLLOUTD_SANDBOX_MEMORY_MIB", "sandbox.memory_mib",
			number(func(c *Config) *int { return &c.Sandbox.MemoryMiB }),
		},
		{
			"ROLLOUTD_NETWORK_MAX", "sandbox.network.max",
			list(func(c *Config) *[]string { return &c.Sandbox.Network.Max }),
		},
		{
			"ROLLOUTD_NETWORK_ALLOW_HOSTS", "sandbox.network.allow_hosts",
			list(func(c *Config) *[]string { return &c.Sandbox.Network.AllowHosts }),
		},
		{"ROLLOUTD_SANDBOX_WARM", "sandbox.warm", number(func(c *Config) *int { return &c.Sandbox.Warm })},
		{"ROLLOUTD_SANDBOX_SWAP", "sandbox.swap", boolean(func(c *Config) *bool { return &c.Sandbox.Swap })},
		{"ROLLOUTD_AGENTS_DIR", "sandbox.agents_dir", text(func(c *Config) *string { return &c.Sandbox.AgentsDir })},
		{"ROLLOUTD_IMAGES_DIR", "sandbox.images.dir", text(func(c *Config) *string { return &c.Sandbox.Images.Dir })},
		{
			"ROLLOUTD_IMAGES_MAX_GIB", "sandbox.images.max_gib",
			number(func(c *Config) *int { return &c.Sandbox.Images.MaxGiB }),
		},
		{
			"ROLLOUTD_IMAGES_MAX_AGE", "sandbox.images.max_age",
			span(func(c *Config) *time.Duration { return &c.Sandbox.Images.MaxAge }),
		},
		{
			"ROLLOUTD_IMAGE_REGISTRIES", "sandbox.images.registries",
			list(func(c *Config) *[]string { return &c.Sandbox.Images.Registries }),
		},
		{"DOCKER_HOST", "sandbox.docker.host", text(func(c *Config) *string { return &c.Sandbox.Docker.Host })},
		{
			"DOCKER_CERT_PATH", "sandbox.docker.cert_path",
			text(func(c *Config) *string { return &c.Sandbox.Docker.CertPath }),
		},
		{
			"ROLLOUTD_DOCKER_IMAGE", "sandbox.docker.image",
			text(func(c *Config) *string { return &c.Sandbox.Docker.Image }),
		},
		{
			"ROLLOUTD_DOCKER_RUNTIME", "sandbox.docker.runtime",
			text(func(c *Config) *string { return &c.Sandbox.Docker.Runtime }),
		},
		{
			"ROLLOUTD_DOCKER_REMOTE", "sandbox.docker.remote",
			boolean(func(c *Config) *bool { return &c.Sandbox.Docker.Remote }),
		},
		{"E2B_API_KEY", "sandbox.e2b.api_key", text(func(c *Config) *string { return &c.Sandbox.E2B.APIKey })},
		{"E2B_DOMAIN", "sandbox.e2b.domain", text(func(c *Config) *string { return &c.Sandbox.E2B.Domain })},
		{"E2B_API_URL", "sandbox.e2b.api_url", text(func(c *Config) *string { return &c.Sandbox.E2B.APIURL })},
		{
			"E2B_SANDBOX_URL", "sandbox.e2b.sandbox_url",
			text(func(c *Config) *string { return &c.Sandbox.E2B.SandboxURL }),
		},
		{
			"ROLLOUTD_E2B_TEMPLATE", "sandbox.e2b.template",
			text(func(c *Config) *string { return &c.Sandbox.E2B.Template }),
		},
		{
			"ROLLOUTD_E2B_SANDBOXES", "sandbox.e2b.sandboxes",
			number(func(c *Config) *int { return &c.Sandbox.E2B.Sandboxes }),
		},
		{
			"ROLLOUTD_ALLOW_WEAK_SANDBOX", "sandbox.allow_weak",
			boolean(func(c *Config) *bool { return &c.Sandbox.AllowWeak }),
		},
		{"ROLLOUTD_STORE_URL", "store.url", text(func(c *Config) *string { return &c.Store.URL })},
		{
			"ROLLOUTD_STORE_ROLLOUT_MIB", "store.rollout_mib",
			number(func(c *Config) *int { return &c.Store.RolloutMiB }),
		},
		{
			"ROLLOUTD_STORE_MIN_FREE_MIB", "store.min_free_mib",
			number(func(c *Config) *int { return &c.Store.MinFreeMiB }),
		},
		{"ROLLOUTD_STORE_MAX_MIB", "store.max_mib", number(func(c *Config) *int { return &c.Store.MaxMiB })},
		{"ROLLOUTD_MODEL_LISTEN", "model.listen", text(func(c *Config) *string { return &c.Model.Listen })},
		{"ROLLOUTD_MODEL_SCRIPT", "model.script", text(func(c *Config) *string { return &c.Model.Script })},
		{
			"ROLLOUTD_TOOL_SERVER_URL", "tools.tool_server_url",
			text(func(c *Config) *string { return &c.Tools.ToolServerURL }),
		},
		{
			"ROLLOUTD_TOOL_SERVER_TOKEN", "tool_server.token",
			text(func(c *Config) *string { return &c.ToolServer.Token }),
		},
		{
			"ROLLOUTD_TOOL_SERVER_LISTEN", "tool_server.listen",
			text(func(c *Config) *string { return &c.ToolServer.Listen }),
		},
		{
			"ROLLOUTD_TRAINER_API_LISTEN", "trainer_api.listen",
			text(func(c *Config) *string { return &c.TrainerAPI.Listen }),
		},
		{
			"ROLLOUTD_TRAINER_API_TOKENS", "trainer_api.tokens",
			list(func(c *Config) *[]string { return &c.TrainerAPI.Tokens }),
		},
		{"ROLLOUTD_PRICES", "prices", prices},
		{"ROLLOUTD_TRANSLATE", "translate", list(func(c *Config) *[]string { return &c.Translate })},
		{"ROLLOUTD_METRICS_LISTEN", "telemetry.listen", text(func(c *Config) *string { return &c.Telemetry.Listen })},
		{
			"OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.otlp_endpoint",
			text(func(c *Config) *string { return &c.Telemetry.OTLPEndpoint }),
		},
		{"OTEL_SERVICE_NAME", "telemetry.service", text(func(c *Config) *string { return &c.Telemetry.Service })},
		{ServerVariable, "", unset},
		{TokenVariable, "", unset},
	}
}

// fromEnv applies every variable that is set and not empty. It reports all unknown or invalid variables in one error.
func (c *Config) fromEnv(env Environ) error {
	errs := []error{env.Check()}
	for _, v := range Variables() {
		value := env[v.Name]
		if value == "" {
			continue
		}

		if err := v.set(c, value); err != nil {
			errs = append(errs, fmt.Errorf("%s=%q: %w", v.Name, value, err))
		}
	}

	c.ModelEnv = overlay(c.ModelEnv, env, modelVariables())
	c.Temporal.Env = overlay(nil, env, temporalVariables())
	c.NomadEnv = overlay(nil, env, nomadVariables())
	c.toolSecrets(env)
	c.sinkTokens(env)

	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("environment:\n%w", err)
	}

	return nil
}

// overlay returns base with the named variables that are set.
func overlay(base map[string]string, env Environ, names []string) map[string]string {
	out := map[string]string{}
	for k, v := range base {
		out[k] = v
	}

	for _, name := range names {
		if v := env[name]; v != "" {
			out[name] = v
		}
	}

	return out
}

// modelVariables are the variables that the model catalog reads.
func modelVariables() []string {
	return []string{
		"VLLM_URL", "VLLM_API_KEY", "VLLM_MODEL", "VLLM_IMAGES",
		"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_IMAGES",
		"HF_ROUTER_BASE_URL", "HF_ROUTER_API_KEY", "HF_ROUTER_MODEL", "HF_ROUTER_IMAGES",
		"SCRIPTED_URL",
	}
}

// temporalVariables are those of Temporal's own client configuration.
func temporalVariables() []string {
	return []string{
		"TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE", "TEMPORAL_API_KEY", "TEMPORAL_TLS", "TEMPORAL_TLS_CLIENT_CERT_PATH",
		"TEMPORAL_TLS_CLIENT_CERT_DATA", "TEMPORAL_TLS_CLIENT_KEY_PATH", "TEMPORAL_TLS_CLIENT_KEY_DATA",
		"TEMPORAL_TLS_SERVER_CA_CERT_PATH", "TEMPORAL_TLS_SERVER_CA_CERT_DATA", "TEMPORAL_TLS_SERVER_NAME",
		"TEMPORAL_TLS_DISABLE_HOST_VERIFICATION",
	}
}

// nomadVariables are those of Nomad's own client, beside its address, which a pool has.
func nomadVariables() []string {
	return []string{
		"NOMAD_TOKEN", "NOMAD_CACERT", "NOMAD_CLIENT_CERT", "NOMAD_CLIENT_KEY", "NOMAD_TLS_SERVER_NAME",
		"NOMAD_SKIP_VERIFY",
	}
}
