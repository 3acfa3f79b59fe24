package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()

	c, err := config.Load(nil, nil)
	require.NoError(t, err)
	require.Equal(t, config.Defaults().Serve, c.Serve)
	require.NoError(t, c.Validate())
	require.Equal(t, ".rolloutd/store", c.StoreURL())
	require.Equal(t, "http://127.0.0.1:7070", c.GatewayURL())
	require.Equal(t, "http://127.0.0.1:9099/v1", c.ModelLookup("SCRIPTED_URL"))
	require.Empty(t, c.ModelLookup("VLLM_URL"))
}

func TestEnvironmentOverridesTheFile(t *testing.T) {
	t.Parallel()

	file := strings.NewReader(
		"serve: {max_sessions: 5, step_timeout: 20s}\nmodel_env: {VLLM_URL: http://a, VLLM_MODEL: m}\n",
	)
	c, err := config.Load(file, config.Environ{
		"MAX_CONCURRENT_ENVS":         "7",
		"OPENENV_SERVER_MODE":         "production",
		"ENABLE_WEB_INTERFACE":        "No",
		"ROLLOUTD_TOKENS":             "aaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbb",
		"VLLM_URL":                    "http://b",
		"VLLM_IMAGES":                 "true",
		"TEMPORAL_API_KEY":            "k",
		"ROLLOUTD_ALLOW_WEAK_SANDBOX": "true",
		"ROLLOUTD_DATA":               "",
	})
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, 7, c.Serve.MaxSessions)
	require.Equal(t, 20*time.Second, c.Serve.StepTimeout)
	require.Equal(t, "production", c.Serve.Mode)
	require.False(t, c.Serve.Web)
	require.Equal(t, []string{"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"}, c.Serve.Tokens)
	require.Equal(t, "http://b", c.ModelLookup("VLLM_URL"))
	require.Equal(t, "m", c.ModelLookup("VLLM_MODEL"))
	require.Equal(t, "true", c.ModelLookup("VLLM_IMAGES"))
	require.Equal(t, map[string]string{"TEMPORAL_API_KEY": "k"}, c.Temporal.Env)
	require.True(t, c.Sandbox.AllowWeak)
	require.Equal(t, "./.rolloutd", c.Data, "an empty variable sets nothing")
}

func TestLoadReportsReadErrors(t *testing.T) {
	t.Parallel()

	_, err := config.Load(strings.NewReader("serve:\n  lisen: x\n"), nil)
	require.ErrorContains(t, err, "line 2: field lisen: no such field of the configuration; did you mean listen?")

	for _, second := range []string{"data: y\n", "---\ndata: y\n", "a: [\n"} {
		_, err = config.Load(strings.NewReader("data: x\n---\n"+second), nil)
		require.ErrorContains(t, err, "second document")
	}

	c, err := config.Load(strings.NewReader("---\ndata: x\n--- # the end\n---\n"), nil)
	require.NoError(t, err)
	require.Equal(t, "x", c.Data)

	_, err = config.Load(nil, config.Environ{
		"ROLLOUTD_GATEWAY_CALLS": "64", "ROLLOUTD_GATEWAY_RATE": "a=1,a=2",
		"MAX_CONCURRENT_ENVS": "many", "ROLLOUTD_STEP_TIMEOUT": "55", "ROLLOUTD_ALLOW_WEAK_SANDBOX": "perhaps",
	})
	require.ErrorContains(t, err, `MAX_CONCURRENT_ENVS="many": must be a whole number`)
	require.ErrorContains(t, err, `ROLLOUTD_GATEWAY_CALLS="64": must be pairs NAME=NUMBER`)
	require.ErrorContains(t, err, `ROLLOUTD_GATEWAY_RATE="a=1,a=2": a occurs twice`)
	require.ErrorContains(t, err, `ROLLOUTD_STEP_TIMEOUT="55": must be a duration`)
	require.ErrorContains(t, err, `ROLLOUTD_ALLOW_WEAK_SANDBOX="perhaps": must be true or false`)
}

// The error for a value that does not parse does not show the value, which may be a misplaced secret.
func TestRefusalsKeepSecrets(t *testing.T) {
	t.Parallel()

	_, err := config.Load(
		strings.NewReader("serve:\n  tokens: hunter2\n  lisen: x\nmodel_env: hunter2`hunter2hunter2\n"),
		nil,
	)
	require.ErrorContains(
		t,
		err,
		"line 2: serve.tokens must be a list of strings, got a string; line 3: field lisen: no such field of the configuration; did you mean listen?; line 4: model_env must be a mapping of strings to strings, got a string",
	)
	require.NotContains(t, err.Error(), "hunter2")

	for given, shown := range map[string]string{
		"me:hunter2@gpu:8000":  "gpu:8000",
		"gpu/v1?key=hunter2@x": "gpu/v1",
		"gpu:8000/v1":          "gpu:8000/v1",
		"hunter2@":             "",
	} {
		c := config.Defaults()
		c.ModelEnv = map[string]string{"VLLM_URL": given}
		require.EqualError(t, c.Validate(), `model_env.VLLM_URL: must be an http:// or https:// URL, got "`+shown+`"`)
	}
}

func TestLoadFileNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rolloutd.yaml")
	_, err := config.LoadFile(path, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("data: [1"), 0o600))
	_, err = config.LoadFile(path, nil)
	require.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, []byte("data: /var/lib/rolloutd"), 0o600))
	c, err := config.LoadFile(path, nil)
	require.NoError(t, err)
	require.Equal(t, "/var/lib/rolloutd/key", c.KeyFile())

	_, err = config.LoadFile("", nil)
	require.NoError(t, err)
}

func TestValidateReportsEveryProblemWithItsPath(t *testing.T) {
	t.Parallel()

	for path, breakIt := range map[string]func(*config.Config){
		"data":                      func(c *config.Config) { c.Data = "" },
		"serve.listen":              func(c *config.Config) { c.Serve.Listen = "8000" },
		"serve.mode":                func(c *config.Config) { c.Serve.Mode = "fast" },
		"serve.max_sessions":        func(c *config.Config) { c.Serve.MaxSessions = -1 },
		"serve.step_timeout":        func(c *config.Config) { c.Serve.StepTimeout = -1 },
		"serve.tokens":              func(c *config.Config) { c.Serve.Listen = "0.0.0.0:8000" },
		"serve.tokens[1]":           func(c *config.Config) { c.Serve.Tokens = []string{"aaaaaaaaaaaaaaaa", "short"} },
		"serve.codec_origins[0]":    func(c *config.Config) { c.Serve.CodecOrigins = []string{"*"} },
		"temporal.address":          func(c *config.Config) { c.Temporal.Address = "somewhere" },
		"gateway.listen":            func(c *config.Config) { c.Gateway.Listen = "127.0.0.1:99999" },
		"gateway.url":               func(c *config.Config) { c.Gateway.URL = "127.0.0.1:7070" },
		"gateway.trainer_listen":    func(c *config.Config) { c.Gateway.TrainerListen = "7071" },
		"gateway.trainer_url":       func(c *config.Config) { c.Gateway.TrainerURL = "127.0.0.1:7071" },
		"gateway.reply":             func(c *config.Config) { c.Gateway.Reply = "fast" },
		"gateway.keep_alive":        func(c *config.Config) { c.Gateway.KeepAlive = -1 },
		"gateway.empty_replies":     func(c *config.Config) { c.Gateway.EmptyReplies = 0 },
		"gateway.queue":             func(c *config.Config) { c.Gateway.Queue = -1 },
		"gateway.reply_memory_mib":  func(c *config.Config) { c.Gateway.ReplyMemoryMiB = 1 },
		"gateway.calls.vllm":        func(c *config.Config) { c.Gateway.Calls = map[string]float64{"vllm": 1.5} },
		"model_env.VLLM_URL":        func(c *config.Config) { c.ModelEnv = map[string]string{"VLLM_URL": "http://a:1, gpu2:8000"} },
		"gateway.burst.vlmm":        func(c *config.Config) { c.Gateway.Burst = map[string]float64{"vlmm": 1} },
		"model_env.VLLM_ULR":        func(c *config.Config) { c.ModelEnv = map[string]string{"VLLM_ULR": "http://a"} },
		"gateway.rate.default":      func(c *config.Config) { c.Gateway.Rate = map[string]float64{"default": -1} },
		"gateway.trainer_tokens[0]": func(c *config.Config) { c.Gateway.TrainerTokens = []string{"short"} },
		"prices.m":                  func(c *config.Config) { c.Prices = map[string]rollout.Price{"m": {Prompt: -1}} },
		"worker.capacity":           func(c *config.Config) { c.Worker.Capacity = -1 },
		"worker.lease":              func(c *config.Config) { c.Worker.Lease = time.Second },
		"worker.janitor":            func(c *config.Config) { c.Worker.Janitor = 0 },
		"worker.grace":              func(c *config.Config) { c.Worker.Grace = 0 },
		"sandbox.cpu":               func(c *config.Config) { c.Sandbox.CPU = -1 },
		"sandbox.memory_mib":        func(c *config.Config) { c.Sandbox.MemoryMiB = -1 },
		"model.listen":              func(c *config.Config) { c.Model.Listen = "" },
		"limits.call":               func(c *config.Config) { c.Limits.Call = -1 },
		"limits.attempts":           func(c *config.Config) { c.Limits.Attempts = -1 },
		"telemetry.listen":          func(c *config.Config) { c.Telemetry.Listen = "x" },
		"telemetry.otlp_endpoint":   func(c *config.Config) { c.Telemetry.OTLPEndpoint = "collector:4318" },
		"ROLLOUTD_ENCRYPTION_KEY":   func(c *config.Config) { c.EncryptionKey = "short" },
		"serve.max_connections":     func(c *config.Config) { c.Serve.MaxConnections = -1 },
		"serve.uploads_mib":         func(c *config.Config) { c.Serve.UploadsMiB = 0 },
		"serve.search_mib":          func(c *config.Config) { c.Serve.SearchMiB = -1 },
		"sandbox.images.max_age":    func(c *config.Config) { c.Sandbox.Images.MaxAge = time.Minute },
		"serve.keep_sessions":       func(c *config.Config) { c.Serve.KeepSessions = time.Hour },
	} {
		c := config.Defaults()
		breakIt(&c)
		require.ErrorContains(t, c.Validate(), path+": ")
		c.Gateway.Listen = "nowhere"
		require.ErrorContains(t, c.Validate(), path+": ", "two problems at once")
		require.ErrorContains(t, c.Validate(), "gateway.listen: ")
	}
}

func TestLease(t *testing.T) {
	t.Parallel()

	for lease, good := range map[time.Duration]bool{
		30*time.Second - 1: false, 30 * time.Second: true, 168 * time.Hour: true, 168*time.Hour + 1: false,
	} {
		c := config.Defaults()
		c.Worker.Lease = lease
		require.Equal(t, good, c.Validate() == nil, lease)
	}
}

func TestListeningOnANetworkNeedsAToken(t *testing.T) {
	t.Parallel()

	c := config.Defaults()
	c.Serve.Listen = ":8000"
	require.ErrorContains(t, c.Validate(), "ROLLOUTD_TOKENS")
	c.Serve.Tokens = []string{"0123456789abcdef"}
	require.NoError(t, c.Validate())

	for _, local := range []string{"127.0.0.1:0", "localhost:8000", "[::1]:8000"} {
		c = config.Defaults()
		c.Serve.Listen = local
		require.NoError(t, c.Validate(), local)
	}
}

// An endpoint has its own bound or the default one.
func TestBoundsOfAnEndpoint(t *testing.T) {
	t.Parallel()

	c, err := config.Load(
		strings.NewReader("gateway: {rate: {openai: 2.5}}\n"),
		config.Environ{"ROLLOUTD_GATEWAY_CALLS": "vllm=64, default=8"},
	)
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	g := c.Gateway
	require.Equal(
		t,
		[]float64{64, 8, 2.5, 0},
		[]float64{g.Of(g.Calls, "vllm"), g.Of(g.Calls, "openai"), g.Of(g.Rate, "openai"), g.Of(g.Rate, "vllm")},
	)
}

// Calls of an endpoint get the salt of its weights unless it is named.
func TestCacheSaltOfAnEndpoint(t *testing.T) {
	t.Parallel()

	c, err := config.Load(nil, config.Environ{"ROLLOUTD_GATEWAY_CACHE_SALT": "vllm=rollout"})
	require.NoError(t, err)
	require.Equal(t, config.SaltRollout, c.Gateway.CacheSaltOf("vllm"))
	require.Equal(t, config.SaltTurn, c.Gateway.CacheSaltOf("openai"))

	c.Gateway.CacheSalt, c.Gateway.Audit = map[string]string{"default": "on"}, map[string]float64{"vllm": 2}
	require.ErrorContains(t, c.Validate(), "gateway.audit.vllm: must be a share from 0 (none) to 1 (all), got 2")
	require.ErrorContains(t, c.Validate(), `gateway.cache_salt.default: must be off, turn or rollout, got "on"`)
}

// Calls of an endpoint continue conversations by ids unless it is named.
func TestContinuationOfAnEndpoint(t *testing.T) {
	t.Parallel()

	c, err := config.Load(nil, config.Environ{"ROLLOUTD_GATEWAY_CONTINUATION": "vllm=messages"})
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, rollout.ContinuationMessages, c.Gateway.ContinuationOf("vllm"))
	require.Equal(t, rollout.ContinuationAuto, c.Gateway.ContinuationOf("openai"))

	c.Gateway.Continuation = map[string]string{"default": "tokens", "vlm": "auto"}
	err = c.Validate()
	require.ErrorContains(t, err, `gateway.continuation.default: must be auto, messages or required, got "tokens"`)
	require.ErrorContains(t, err, "gateway.continuation.vlm: there is no such endpoint; did you mean vllm?")

	_, err = config.Load(nil, config.Environ{"ROLLOUTD_GATEWAY_CONTINUATION": "messages"})
	require.ErrorContains(t, err, "must be pairs NAME=WORD")
}

func TestPrices(t *testing.T) {
	t.Parallel()

	c, err := config.Load(nil, config.Environ{"ROLLOUTD_PRICES": "gpt-4o-mini=0.15/0.6/0.075, org/model:fast=1/2"})
	require.NoError(t, err)
	require.NoError(t, c.Validate())

	cached := 0.075
	require.Equal(t, map[string]rollout.Price{
		"gpt-4o-mini":    {Prompt: 0.15, Completion: 0.6, CachedPrompt: &cached},
		"org/model:fast": {Prompt: 1, Completion: 2},
	}, c.Prices)

	for _, bad := range []string{"m", "m=1", "=1/2", "m=1/x", "m=1/2,", "m=1/2/", "m=1/2/3/4"} {
		_, err := config.Load(nil, config.Environ{"ROLLOUTD_PRICES": bad})
		require.ErrorContains(t, err, "ROLLOUTD_PRICES", bad)
	}
}

func TestLimitsOverlay(t *testing.T) {
	t.Parallel()

	base := rollout.Limits{Agent: time.Minute, Call: time.Second, Attempts: 3}
	got := config.Limits{Setup: time.Hour, Attempts: 1}.Over(base)
	require.Equal(t, rollout.Limits{Agent: time.Minute, Setup: time.Hour, Call: time.Second, Attempts: 1}, got)
	require.Equal(t, base, config.Limits{}.Over(base))
}

func TestVariablesNameDifferentSettings(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}
	for _, v := range config.Variables() {
		require.False(t, seen[v.Name], v.Name)
		seen[v.Name] = true
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("serve: {listen: 127.0.0.1:1}\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load(strings.NewReader(text), nil)
		if err == nil {
			// must not panic
			_ = c.Validate()
		}
	})
}

// A value of a wrong type is reported together with all other problems of the file and of the environment.
func TestWrongTypesWithAllOtherProblems(t *testing.T) {
	t.Parallel()

	_, err := config.Load(strings.NewReader("worker: {capacity: many}\nserve: {max_sessions: -1}\n"), config.Environ{
		"ROLLOUTD_STEP_TIMEOUT": "soon",
	})
	for _, want := range []string{
		"line 1: worker.capacity must be a whole number, got a string", "serve.max_sessions: must be 0 (the default) or more, got -1", "ROLLOUTD_STEP_TIMEOUT",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()

	c, err := config.Load(strings.NewReader("retention:\n  rules:\n    - {older_than: 72h, outcomes: [aborted], max_mib: 5}\n"), nil)
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, time.Hour, c.Retention.Every)
	require.Equal(t, []config.RetentionRule{{OlderThan: 72 * time.Hour, Outcomes: []rollout.Outcome{rollout.Aborted}, MaxMiB: 5}}, c.Retention.Rules)

	c.Retention = config.Retention{
		Rules: []config.RetentionRule{{}, {OlderThan: time.Minute, Outcomes: []rollout.Outcome{"lost"}, MaxMiB: -1}},
	}
	err = c.Validate()
	require.ErrorContains(t, err, "retention.every: must be at least 1m")
	require.ErrorContains(t, err, "retention.rules[0].older_than: must be at least 1h0m0s, got 0s")
	require.ErrorContains(t, err, "retention.rules[1].older_than: must be at least 1h0m0s, got 1m0s")
	require.ErrorContains(t, err, `retention.rules[1].outcomes: must be of completed`)
	require.ErrorContains(t, err, "retention.rules[1].max_mib: must be 0 (age decides alone) or more, got -1")
}
