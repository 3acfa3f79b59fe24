package egress_test

import (
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

func TestSpecialHostsAreRefused(t *testing.T) {
	t.Parallel()

	for _, host := range []string{
		"127.0.0.1", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000", "localhost", "LOCALHOST.", "a.localhost", "ip6-localhost",
		"10.1.2.3", "172.16.0.1", "192.168.1.1", "[fd00::1]", "169.254.169.254", "[fe80::1%25eth0]", "metadata.google.internal", "0.0.0.0",
		"100.100.100.200", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1", "255.255.255.255",
		"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "1.2.3.08", "168.63.129.16",
	} {
		require.True(t, fault.Is(check(t, nil, "http://"+host+"/v1"), fault.Invalid), host)
	}

	for _, host := range []string{"8.8.8.8", "api.example.com", "gpu-1:8000", "vllm", "[2606:4700::1111]", "[64:ff9b::808:808]", "172.32.0.1"} {
		require.NoError(t, check(t, nil, "http://"+host+"/v1"), host)
	}
}

func TestPatternsAllow(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		pattern, url string
		allowed      bool
	}{
		{"127.0.0.0/8", "http://127.0.0.1:9/v1", true},
		{"127.0.0.0/8", "http://localhost:9/v1", true},
		{"127.0.0.0/8", "http://[::1]:9/v1", false},
		{"localhost", "http://localhost:9/v1", true},
		{"localhost", "http://127.0.0.1:9/v1", false},
		{"127.0.0.1:8000", "http://127.0.0.1:8000/v1", true},
		{"127.0.0.1:8000", "http://127.0.0.1:8001/v1", false},
		{"127.0.0.1:80", "http://127.0.0.1/v1", true},
		{"127.0.0.1:443", "https://127.0.0.1/v1", true},
		{"::1", "http://[::1]:9/v1", true},
		{"[::1]:9", "http://[::1]:9/v1", true},
		{"10.0.0.0/8:8000", "http://10.2.3.4:8000/v1", true},
		{"10.0.0.0/8:8000", "http://10.2.3.4:8001/v1", false},
		{"10.0.0.0/8", "http://169.254.169.254/v1", false},
		{"metadata.google.internal", "http://metadata.google.internal/v1", true},
		{"10.0.0.5", "http://[::ffff:10.0.0.5]/v1", true},
	} {
		err := check(t, []string{tc.pattern}, tc.url)
		require.Equal(t, tc.allowed, err == nil, "%s, %s: %v", tc.pattern, tc.url, err)
	}
}

// At dial the policy checks the addresses that a name resolved to, unless the name itself is allowed.
func TestResolvedNames(t *testing.T) {
	t.Parallel()

	p, err := egress.Parse([]string{"*.gpu.lan:8000"})
	require.NoError(t, err)

	private := netip.MustParseAddrPort("10.0.0.5:8000")
	require.NoError(t, p.CheckAddr("a.gpu.lan", private))
	require.NoError(t, p.CheckAddr("A.GPU.LAN.", private))
	require.NoError(t, p.CheckAddr("evil.test", netip.MustParseAddrPort("8.8.8.8:8000")))
	require.Error(t, p.CheckAddr("a.gpu.lan", netip.MustParseAddrPort("10.0.0.5:22")))
	err = p.CheckAddr("evil.test", private)
	require.True(t, fault.Is(err, fault.Invalid))
	require.ErrorContains(t, err, "evil.test is a private address")
	require.ErrorContains(t, err, "gateway.allow_hosts")
}

func TestInvalidPatterns(t *testing.T) {
	t.Parallel()

	for _, text := range []string{"", "*", "*.", "a*b", "http://gpu", "gpu:0", "gpu:x", "10.0.0.0/33", "user@gpu"} {
		_, err := egress.Parse([]string{text})
		require.Error(t, err, text)
	}
}

func check(t *testing.T, patterns []string, raw string) error {
	t.Helper()

	p, err := egress.Parse(patterns)
	require.NoError(t, err)
	u, err := url.Parse(raw)
	require.NoError(t, err)

	return p.CheckURL(u)
}
