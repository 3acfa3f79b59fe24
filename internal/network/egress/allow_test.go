package egress_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/network/egress"
)

func TestAllowList(t *testing.T) {
	t.Parallel()

	l, err := egress.ParseAllow([]string{"example.org", "*.PyPI.org", "git.lan.:22", "192.0.2.1", "[2001:db8::1]:8443"})
	require.NoError(t, err)

	for _, c := range []struct {
		host string
		port uint16
		want bool
	}{
		{"example.org", 443, true}, {"EXAMPLE.org.", 80, true}, {"example.org", 22, false}, {"www.example.org", 443, false}, {"example.org.evil.com", 443, false},
		{"files.pypi.org", 443, true}, {"pypi.org", 443, false}, {"evilpypi.org", 443, false},
		{"git.lan", 22, true}, {"git.lan", 443, false}, {"192.0.2.1", 443, true}, {"192.0.2.2", 443, false}, {"2001:db8::1", 8443, true}, {"2001:db8::1", 443, false},
		{"", 443, false},
	} {
		require.Equal(t, c.want, l.Allows(c.host, c.port), "%s:%d", c.host, c.port)
	}

	all, err := egress.ParseAllow([]string{"*"})
	require.NoError(t, err)
	require.True(t, all.Allows("anything", 1))
	require.False(t, egress.AllowList{}.Allows("example.org", 443))

	for _, bad := range []string{"", "10.0.0.0/8", "http://x", "a b", "*x", "x:0", "*."} {
		_, err := egress.ParseAllow([]string{bad})
		require.Error(t, err, bad)
	}
}

func TestAllowListCovers(t *testing.T) {
	t.Parallel()

	l, err := egress.ParseAllow([]string{"example.org", "*.pypi.org", "git.lan:22", "192.0.2.1"})
	require.NoError(t, err)

	for entry, want := range map[string]bool{
		"example.org": true, "example.org:443": true, "example.org:22": false, "*.example.org": false, "*": false,
		"files.pypi.org": true, "*.pypi.org": true, "*.files.pypi.org": true, "pypi.org": false,
		"git.lan:22": true, "git.lan": false, "192.0.2.1": true, "192.0.2.2": false, "nonsense/": false,
	} {
		require.Equal(t, want, l.Covers(entry), entry)
	}

	require.False(t, egress.AllowList{}.Covers("example.org"))
}
