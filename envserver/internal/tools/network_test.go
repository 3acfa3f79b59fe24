package tools_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Hosts that the operator does not allow are refused before the rollout is queued.
func TestNetworkArguments(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		most      []string
		arguments string
		want      *rollout.Network
		refused   string
	}{
		{nil, `{}`, nil, ""},
		{nil, `{"allow_network":false,"require_sandbox":true,"require_stateful_sandbox":true,"network":{}}`, nil, ""},
		{nil, `{"allow_network":true}`, nil, "the operator lets no task reach a network"},
		{nil, `{"network":{"allow":["example.org"]}}`, nil, `network.allow: "example.org" is not among the hosts that the operator lets tasks reach (none)`},
		{[]string{"*.example.org"}, `{"network":{"agent":["a.example.org","example.org"]}}`, nil, `network.agent: "example.org" is not among`},
		{[]string{"*.example.org"}, `{"network":{"allow":["a.org"],"setup":["b.org"],"agent":["c.org"]}}`, nil, `network.allow: "a.org" is not among`},
		{[]string{"*.example.org"}, `{"network":{"setup":["10.0.0.0/8"]}}`, nil, `network.setup: must be a host name, *.domain or one address, not a range, got "10.0.0.0/8"`},
		{[]string{"example.org"}, `{"allow_network":false,"network":{"allow":["example.org"]}}`, nil, "allow_network: is false, but network names hosts"},
		{nil, `{"allow_network":false,"network":{"allow":["example.org"]}}`, nil, "allow_network: is false, but network names hosts"},
		{nil, `{"sandbox":{"mcp_servers":[{"name":"a","transport":"sse","url":"http://b.org/"}]}}`, nil,
			"sandbox.mcp_servers[0].url: b.org:80 is neither a service beside the agent nor a host that it may reach"},
		{[]string{"*"}, `{"network":{"setup":["b.org"]},"sandbox":{"mcp_servers":[{"name":"a","transport":"sse","url":"http://b.org/"}]}}`, nil,
			"sandbox.mcp_servers[0].url: b.org:80 is neither"},
		{[]string{"*"}, `{"network":{"agent":["b.org"]},"sandbox":{"mcp_servers":[{"name":"a","transport":"sse","url":"http://b.org/"}]}}`,
			&rollout.Network{Agent: []string{"b.org"}}, ""},
		{nil, `{"sandbox":{"mcp_servers":[{"name":"a","transport":"sse"}]}}`, nil, "sandbox.mcp_servers[0].url: must be an address"},
		{[]string{"example.org"}, `{"allow_network":true}`, &rollout.Network{Allow: []string{"example.org"}}, ""},
		{[]string{"*"}, `{"allow_network":true,"network":{"allow":["a.org"]}}`, &rollout.Network{Allow: []string{"a.org"}}, ""},
		{[]string{"*"}, `{"allow_network":true,"network":{"agent":[]}}`, &rollout.Network{Setup: []string{"*"}, Agent: []string{}}, ""},
		{[]string{"*"}, `{"allow_network":true,"network":{"setup":["a.org"]}}`,
			&rollout.Network{Setup: []string{"a.org"}, Agent: []string{"*"}}, ""},
		{nil, `{"allow_network":true,"network":{"agent":[],"setup":[]}}`, nil, ""},
		{[]string{"*"}, `{"allow_network":true,"network":{"allow":[]}}`, nil, ""},
		{nil, `{"allow_network":true,"network":{"agent":[]}}`, nil, "the operator lets no task reach a network"},
		{[]string{"*"}, `{"network":{"allow":["a.org"],"setup":["b.org"],"agent":["c.org:22"]}}`,
			&rollout.Network{Allow: []string{"a.org"}, Setup: []string{"b.org"}, Agent: []string{"c.org:22"}}, ""},
	} {
		list, err := egress.ParseAllow(c.most)
		require.NoError(t, err)

		r := &recorder{}
		tab := table(t, r, func(o *tools.Options) { o.MaxNetwork = tools.NetworkMax{Hosts: c.most, List: list} })
		v, err := jsonvalue.Decode([]byte(c.arguments))
		require.NoError(t, err)

		arguments := v.(map[string]any)
		arguments["instruction"], arguments["endpoint"] = "go", "vllm"

		_, err = tab.Call(t.Context(), tools.Call{Tool: "start_rollout", Args: arguments})
		if c.refused != "" {
			require.ErrorContains(t, err, c.refused)
			continue
		}

		require.NoError(t, err)
		require.Equal(t, c.want, r.specs[0].Sandbox.Network, c.arguments)
	}
}
