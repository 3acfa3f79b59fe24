package config

import (
	"errors"
	"fmt"
)

// Variable is an environment variable that sets a setting.
type Variable struct {
	Name string

	// path of the setting in the file; empty if the file cannot set it
	Path string

	// Default and About are Markdown, with links relative to docs. A Default that is code alone is the value itself.
	Default, About string
	set            func(*Config, string) error
}

// Variables of the commands that call a server. They are not settings of a role.
const (
	ServerVariable = "ROLLOUTD_SERVER"
	TokenVariable  = "ROLLOUTD_TOKEN"
)

// Variables lists the environment variables, without those of the model catalog and of Temporal.
func Variables() (all []Variable) {
	for _, s := range VariableSections() {
		all = append(all, s.Variables...)
	}

	return all
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
