package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

// An unknown variable is refused with the closest known name and without its value.
func TestUnknownVariablesAreRefused(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ name, want string }{
		{"ROLLOUTD_LISTN", "did you mean ROLLOUTD_LISTEN?"},
		{"ROLLOUTD_TOKNES", "did you mean ROLLOUTD_TOKENS?"},
		{"ROLLOUTD_TOKEN_FILE", "did you mean ROLLOUTD_TOKENS_FILE?"},
		{"ROLLOUTD_SERVR", "did you mean ROLLOUTD_SERVER?"},
		{"ROLLOUTD_SANDBOX_MEMORY", "did you mean ROLLOUTD_SANDBOX_MEMORY_MIB?"},
		{"ROLLOUTD_GATEWAY_QUEU", "did you mean ROLLOUTD_GATEWAY_QUEUE?"},
		{"ROLLOUTD_UPSTRAMS", "docs/reference/configuration.md lists them"},
		{"ROLLOUTD_", "docs/reference/configuration.md lists them"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			_, err := config.Load(nil, config.Environ{tc.name: "a secret", "ROLLOUTD_STEP_TIMEOUT": "55"})
			require.ErrorContains(t, err, tc.name+": unknown variable; "+tc.want)
			require.ErrorContains(t, err, `ROLLOUTD_STEP_TIMEOUT="55"`, "reported in one error")
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// One environment file serves all roles and commands of a host; variables of other programs are accepted.
func TestAcceptedVariables(t *testing.T) {
	t.Parallel()

	all := config.EnvironOf([]string{
		"ROLLOUTD_LISTEN=127.0.0.1:1",
		"ROLLOUTD_GATEWAY_QUEUE=3",
		"ROLLOUTD_WORKER_CAPACITY=2",
		"ROLLOUTD_SERVER=http://a",
		"ROLLOUTD_TOKEN=t=1",
		"ROLLOUTD_UPSTRAMS=",
		"ROLLOUT_DATA=x",
		"VLLM_LOGGING_LEVEL=INFO",
		"PATH=/bin",
	})
	require.NoError(t, all.Check())
	require.Equal(t, "t=1", all[config.TokenVariable])
	c, err := config.Load(nil, all)
	require.NoError(t, err)
	require.Equal(t, 3, c.Gateway.Queue)
}

// Kubernetes sets variables for the services of a namespace. Variables that only resemble them are refused.
func TestVariablesOfAService(t *testing.T) {
	t.Parallel()

	linked := config.Environ{
		"ROLLOUTD_SERVICE_HOST":       "10.0.0.1",
		"ROLLOUTD_SERVICE_PORT":       "8000",
		"ROLLOUTD_SERVICE_PORT_HTTP":  "8000",
		"ROLLOUTD_PORT":               "tcp://10.0.0.1:8000",
		"ROLLOUTD_PORT_8000_TCP_ADDR": "10.0.0.1",
		"ROLLOUTD_WEB_SERVICE_HOST":   "10.0.0.2",
		"ROLLOUTD_WEB_SERVICE_PORT":   "80",
		"ROLLOUTD_WEB_PORT":           "tcp://10.0.0.2:80",
	}
	require.NoError(t, linked.Check())
	linked["ROLLOUTD_PRICS"] = "m=1/2"
	require.EqualError(t, linked.Check(), "ROLLOUTD_PRICS: unknown variable; did you mean ROLLOUTD_PRICES?")
	require.Error(t, config.Environ{"ROLLOUTD_PORT": "8000"}.Check())
}

// A bound of a misspelled endpoint is refused, because it would have no effect.
func TestBoundsOfMisspeltEndpoints(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{
		"vllm":          "",
		"default":       "",
		"hf_router":     "",
		"gpu":           "",
		"vllm2":         "",
		"vllm-a":        "",
		"10.0.0.1:8000": "",
		"opena.i":       "",
		"vlmm":          "did you mean vllm?",
		"hf-router":     "did you mean hf_router?",
		"opnai":         "did you mean openai?",
		"defualt":       "did you mean default?",
	} {
		c := config.Defaults()

		c.Gateway.Calls = map[string]float64{name: 1}
		if want == "" {
			require.NoError(t, c.Validate(), name)
			continue
		}

		require.EqualError(t, c.Validate(), "gateway.calls."+name+": there is no such endpoint; "+want)
	}

	c := config.Defaults()
	c.Gateway.Rate = map[string]float64{"http://10.0.0.1:8000/v1": 1}
	require.ErrorContains(
		t,
		c.Validate(),
		"gateway.rate.http://10.0.0.1:8000/v1: must be an endpoint's name, or host:port",
	)
}
