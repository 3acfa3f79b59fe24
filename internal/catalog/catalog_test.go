package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}

	return func(name string) string { return m[name] }
}

func flag(b bool) *bool { return &b }

func TestResolve(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name string
		env  func(string) string
		ask  catalog.Request
		want rollout.Model
		key  string
	}{
		{
			name: "vllm from the environment alone", env: env("VLLM_URL", "http://gpu:8000", "VLLM_MODEL", "policy", "VLLM_API_KEY", "k"),
			ask:  catalog.Request{Endpoint: "vllm", MaxTokensCap: 4096, TopLogprobs: 5},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Name: "policy", MaxTokensCap: 4096, Logprobs: true, TopLogprobs: 5, TokenIDs: true, Thinking: flag(false)},
			key:  "k",
		},
		{
			name: "images by the environment", env: env("VLLM_URL", "http://gpu:8000", "VLLM_MODEL", "policy", "VLLM_IMAGES", "false"),
			ask:  catalog.Request{Endpoint: "vllm"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Name: "policy", Logprobs: true, TokenIDs: true, Thinking: flag(false), Images: flag(false)},
			key:  "intercepted",
		},
		{
			name: "images by the argument", env: env("VLLM_URL", "http://gpu:8000", "VLLM_MODEL", "policy", "VLLM_IMAGES", "false"),
			ask:  catalog.Request{Endpoint: "vllm", Images: flag(true)},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Name: "policy", Logprobs: true, TokenIDs: true, Thinking: flag(false), Images: flag(true)},
			key:  "intercepted",
		},
		{
			name: "several engines", env: env("VLLM_URL", "http://gpu1:8000, http://gpu2:8000/v1", "VLLM_MODEL", "policy", "VLLM_API_KEY", "k"),
			ask:  catalog.Request{Endpoint: "vllm"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu1:8000/v1,http://gpu2:8000/v1", Name: "policy", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "k",
		},
		{
			name: "one engine of several", env: env("VLLM_URL", "http://gpu1:8000,http://gpu2:8000", "VLLM_MODEL", "policy", "VLLM_API_KEY", "k"),
			ask:  catalog.Request{Endpoint: "vllm", BaseURL: "http://gpu2:8000"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu2:8000/v1", Name: "policy", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "k",
		},
		{
			name: "vllm defaults", env: env("VLLM_URL", "http://gpu:8000/v1/"), ask: catalog.Request{Endpoint: "vllm"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Name: "Qwen/Qwen3.5-4B", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "intercepted",
		},
		{
			name: "arguments win over the environment", env: env("VLLM_URL", "http://gpu:8000", "VLLM_MODEL", "policy", "VLLM_API_KEY", "k"),
			ask:  catalog.Request{Endpoint: "vllm", BaseURL: "https://other/prefix", Model: "m2", APIKey: "k2", MaxTokensCap: -1},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "https://other/prefix/v1", Own: true, Name: "m2", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "k2",
		},
		{
			name: "openai defaults", env: env("OPENAI_API_KEY", "sk"), ask: catalog.Request{Endpoint: "openai"},
			want: rollout.Model{Endpoint: "openai", BaseURL: "https://api.openai.com/v1", Name: "gpt-4o-mini", Logprobs: true},
			key:  "sk",
		},
		{
			name: "hf_router defaults", env: env("HF_ROUTER_API_KEY", "hf"), ask: catalog.Request{Endpoint: "hf_router"},
			want: rollout.Model{Endpoint: "hf_router", BaseURL: "https://router.huggingface.co/v1", Name: "Qwen/Qwen3-4B-Instruct-2507:nscale", Logprobs: true},
			key:  "hf",
		},
		{
			name: "scripted needs nothing", env: env(), ask: catalog.Request{Endpoint: "scripted"},
			want: rollout.Model{Endpoint: "scripted", BaseURL: "http://127.0.0.1:9099/v1", Name: "scripted", Logprobs: true, TokenIDs: true},
			key:  "intercepted",
		},
		{
			name: "scripted elsewhere", env: env("SCRIPTED_URL", "http://10.0.0.1:1/v1"), ask: catalog.Request{Endpoint: "scripted"},
			want: rollout.Model{Endpoint: "scripted", BaseURL: "http://10.0.0.1:1/v1", Name: "scripted", Logprobs: true, TokenIDs: true},
			key:  "intercepted",
		},
		{
			name: "base_url alone is like vllm and gets no key of the server's", env: env("VLLM_API_KEY", "k", "OPENAI_API_KEY", "sk"),
			ask:  catalog.Request{BaseURL: "http://lan:1", Model: "m"},
			want: rollout.Model{BaseURL: "http://lan:1/v1", Name: "m", Logprobs: true, TokenIDs: true},
			key:  "intercepted",
		},
		{
			name: "base_url at OpenAI", env: env("OPENAI_API_KEY", "sk"), ask: catalog.Request{BaseURL: "https://API.openai.com/v1", Model: "m"},
			want: rollout.Model{Endpoint: "openai", BaseURL: "https://API.openai.com/v1", Name: "m", Logprobs: true},
			key:  "sk",
		},
		{
			name: "vllm elsewhere gets no key of the server's", env: env("VLLM_URL", "http://gpu:8000", "VLLM_API_KEY", "k"),
			ask:  catalog.Request{Endpoint: "vllm", BaseURL: "http://gpu:8001"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8001/v1", Own: true, Name: "Qwen/Qwen3.5-4B", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "intercepted",
		},
		{
			name: "generation 1 vllm_url elsewhere gets no key of the server's", env: env("VLLM_API_KEY", "k"),
			ask:  catalog.Request{ModelKey: "vllm://m", VLLMURL: "http://gpu:8001"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8001/v1", Own: true, Name: "m", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "intercepted",
		},
		{
			name: "the server's own URL, given by hand, gets its key", env: env("VLLM_URL", "https://GPU", "VLLM_API_KEY", "k", "VLLM_MODEL", "m"),
			ask:  catalog.Request{Endpoint: "vllm", BaseURL: "https://gpu:443/v1"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "https://gpu:443/v1", Name: "m", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "k",
		},
		{
			name: "openai elsewhere with the client's own key", env: env("OPENAI_API_KEY", "sk"),
			ask:  catalog.Request{Endpoint: "openai", BaseURL: "https://proxy.lan/v1", APIKey: "mine"},
			want: rollout.Model{Endpoint: "openai", BaseURL: "https://proxy.lan/v1", Own: true, Name: "gpt-4o-mini", Logprobs: true},
			key:  "mine",
		},
		{
			name: "generation 1 vllm, not thinking", env: env(), ask: catalog.Request{ModelKey: "vllm://Qwen/Qwen3.5-4B", VLLMURL: "http://gpu:8000"},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Own: true, Name: "Qwen/Qwen3.5-4B", Logprobs: true, TokenIDs: true, Thinking: flag(false)},
			key:  "intercepted",
		},
		{
			name: "generation 1 vllm, thinking", env: env(), ask: catalog.Request{ModelKey: "vllm://Qwen/Qwen3.5-4B", VLLMURL: "http://gpu:8000", Thinking: true},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Own: true, Name: "Qwen/Qwen3.5-4B", Logprobs: true, TokenIDs: true, Thinking: flag(true)},
			key:  "intercepted",
		},
		{
			name: "thinking of an endpoint by its name", env: env("VLLM_URL", "http://gpu:8000"), ask: catalog.Request{Endpoint: "vllm", Thinking: true},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Name: "Qwen/Qwen3.5-4B", Logprobs: true, TokenIDs: true, Thinking: flag(true)},
			key:  "intercepted",
		},
		{
			name: "generation 1 thinking is ignored for a model that has none", env: env(),
			ask:  catalog.Request{ModelKey: "vllm://meta/Llama-3", VLLMURL: "http://gpu:8000", Thinking: true},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu:8000/v1", Own: true, Name: "meta/Llama-3", Logprobs: true, TokenIDs: true},
			key:  "intercepted",
		},
		{
			name: "generation 1 hf-router", env: env(), ask: catalog.Request{ModelKey: "hf-router://Qwen/Qwen3-8B:nscale", HFToken: "hf", Thinking: true},
			want: rollout.Model{Endpoint: "hf_router", BaseURL: "https://router.huggingface.co/v1", Name: "Qwen/Qwen3-8B:nscale", Logprobs: true, Thinking: flag(true)},
			key:  "hf",
		},
		{
			name: "disable_thinking false leaves the model's own way", env: env("VLLM_URL", "http://gpu"), ask: catalog.Request{
				Endpoint:        "vllm",
				DisableThinking: flag(false),
			},
			want: rollout.Model{Endpoint: "vllm", BaseURL: "http://gpu/v1", Name: "Qwen/Qwen3.5-4B", Logprobs: true, TokenIDs: true},
			key:  "intercepted",
		},
		{
			name: "disable_thinking true is sent anywhere", env: env("HF_ROUTER_API_KEY", "hf"), ask: catalog.Request{
				Endpoint:        "hf_router",
				DisableThinking: flag(true),
			},
			want: rollout.Model{Endpoint: "hf_router", BaseURL: "https://router.huggingface.co/v1", Name: "Qwen/Qwen3-4B-Instruct-2507:nscale", Logprobs: true, Thinking: flag(false)},
			key:  "hf",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			got, key, err := catalog.New(tc.env, egress.Policy{}).Resolve(tc.ask)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.key, key)
		})
	}
}

// Every refusal names the argument, and the environment variable that could supply it.
func TestResolveRefuses(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name  string
		ask   catalog.Request
		field string
		says  []string
	}{
		{"nothing said", catalog.Request{}, "endpoint", []string{"vllm, openai, hf_router, scripted", "base_url", "model_key"}},
		{"unknown endpoint", catalog.Request{Endpoint: "claude"}, "endpoint", []string{`"claude"`, "vllm, openai, hf_router, scripted"}},
		{"vllm without URL", catalog.Request{Endpoint: "vllm"}, "base_url", []string{"VLLM_URL", "base_url"}},
		{"openai without key", catalog.Request{Endpoint: "openai"}, "api_key", []string{"OPENAI_API_KEY", "api_key"}},
		{"hf_router without key", catalog.Request{Endpoint: "hf_router"}, "api_key", []string{"HF_ROUTER_API_KEY"}},
		{"base_url without model", catalog.Request{BaseURL: "http://x"}, "model", []string{"argument model"}},
		{"vllm key without URL", catalog.Request{ModelKey: "vllm://a/b"}, "vllm_url", []string{"VLLM_URL", "vllm_url"}},
		{"hf key without token", catalog.Request{ModelKey: "hf-router://a/b:p"}, "hf_token", []string{"HF_ROUTER_API_KEY", "hf_token"}},
		{"hf key without provider", catalog.Request{ModelKey: "hf-router://a/b"}, "model_key", []string{"hf-router://<repo>:<provider>"}},
		{"unknown model key", catalog.Request{ModelKey: "gpt-4"}, "model_key", []string{`"gpt-4"`}},
		{"two endpoints at once", catalog.Request{ModelKey: "vllm://a/b", VLLMURL: "http://x", Endpoint: "openai"}, "model_key", []string{"vllm", "openai"}},
		{"no URL at all", catalog.Request{BaseURL: "gpu:8000", Model: "m"}, "base_url", []string{"http(s)://"}},
		{"the URL of a route", catalog.Request{BaseURL: "http://x/v1/chat/completions/", Model: "m"}, "base_url", []string{"before /chat/completions"}},
		{"credentials in the URL", catalog.Request{BaseURL: "http://u:p@x", Model: "m"}, "base_url", []string{"api_key"}},
		{"the server's own loopback", catalog.Request{BaseURL: "http://127.0.0.1:7233", Model: "m"}, "base_url", []string{"loopback", "ROLLOUTD_ALLOW_HOSTS"}},
		{"a metadata service", catalog.Request{ModelKey: "vllm://m", VLLMURL: "http://169.254.169.254/latest"}, "vllm_url", []string{"link-local"}},
		{"one of several engines", catalog.Request{BaseURL: "http://a.test/v1,http://10.0.0.1/v1", Model: "m"}, "base_url", []string{"10.0.0.1 is a private address"}},
		{"negative top_logprobs", catalog.Request{
			Endpoint:    "scripted",
			TopLogprobs: -1,
		}, "top_logprobs", []string{"-1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			_, _, err := catalog.New(env(), egress.Policy{}).Resolve(tc.ask)

			var f *fault.Error
			require.ErrorAs(t, err, &f)
			require.Equal(t, fault.Invalid, f.Kind)
			require.Equal(t, tc.field, f.Field)

			for _, s := range tc.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
}

// A key that is read from a file often ends with a line break. The error names the source of the key and
// does not contain the key.
func TestResolveRefusesAKeyThatNoHeaderCarries(t *testing.T) {
	t.Parallel()

	ours := env("VLLM_URL", "http://gpu:8000", "VLLM_API_KEY", "sk-ours\n")
	for _, tc := range []struct {
		ask         catalog.Request
		field, says string
	}{
		{catalog.Request{Endpoint: "scripted", APIKey: "sk-1\n"}, "api_key", "line break"},
		{catalog.Request{Endpoint: "vllm", BaseURL: "http://other", APIKey: "sk-1\x00"}, "api_key", "line break"},
		{catalog.Request{ModelKey: "hf-router://a/b:p", HFToken: "sk-1\r\n"}, "hf_token", "line break"},
		{catalog.Request{Endpoint: "vllm"}, "api_key", "VLLM_API_KEY in the server's environment"},
	} {
		_, _, err := catalog.New(ours, egress.Policy{}).Resolve(tc.ask)

		var f *fault.Error
		require.ErrorAs(t, err, &f)
		require.Equal(t, fault.Invalid, f.Kind)
		require.Equal(t, tc.field, f.Field)
		require.ErrorContains(t, err, tc.says)
		require.NotContains(t, err.Error(), "sk-")
	}
}

// A key of the server's environment never goes to a URL that the client chose.
func TestResolveSendsTheServersKeyToItsOwnURLsOnly(t *testing.T) {
	t.Parallel()

	c := catalog.New(
		env("OPENAI_API_KEY", "sk", "HF_ROUTER_API_KEY", "hf", "HF_ROUTER_BASE_URL", "https://router.lan/v1"),
		egress.Policy{},
	)

	for _, tc := range []struct {
		name  string
		ask   catalog.Request
		field string
	}{
		{"another host", catalog.Request{Endpoint: "openai", BaseURL: "https://evil.example/v1"}, "api_key"},
		{"a host that only begins alike", catalog.Request{Endpoint: "openai", BaseURL: "https://api.openai.com.evil.example/v1"}, "api_key"},
		{"an engine more", catalog.Request{Endpoint: "openai", BaseURL: "https://api.openai.com/v1,https://evil.example/v1"}, "api_key"},
		{"another port", catalog.Request{Endpoint: "openai", BaseURL: "https://api.openai.com:8443/v1"}, "api_key"},
		{"no encryption", catalog.Request{BaseURL: "http://api.openai.com/v1"}, "api_key"},
		{"the default, where the environment names another", catalog.Request{Endpoint: "hf_router", BaseURL: "https://router.huggingface.co/v1"}, "api_key"},
		{"generation 1", catalog.Request{ModelKey: "hf-router://a/b:p", BaseURL: "https://evil.example/v1"}, "hf_token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			_, key, err := c.Resolve(tc.ask)

			var f *fault.Error
			require.ErrorAs(t, err, &f)
			require.Equal(t, fault.Invalid, f.Kind)
			require.Equal(t, tc.field, f.Field)
			require.ErrorContains(t, err, tc.field+": must be set")
			require.Empty(t, key)
		})
	}
}
