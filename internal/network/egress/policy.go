// Package egress decides which hosts a client may have model calls sent to.
//
// A client names its model endpoint by URL, and the gateway, which calls it, stands inside the operator's
// network. Without a rule, a client could have the gateway call cloud metadata services, databases and
// admin pages. A Policy therefore refuses loopback, link-local, private and other special addresses unless
// the operator allows them. It checks twice: at submit the URL, so that the client sees the reason
// (CheckURL), and at dial the address that a name resolved to (CheckAddr).
//
// URLs that the operator configured (VLLM_URL and the like) are not the client's and need no check.
package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Policy is a set of allowed special hosts. The zero value allows none. It is safe for concurrent use.
type Policy struct {
	allowed []pattern

	// name of the setting that allows further hosts; "": gatewaySetting
	setting string
}

// gatewaySetting is the setting behind most policies.
const gatewaySetting = "gateway.allow_hosts (ROLLOUTD_ALLOW_HOSTS)"

// Setting returns the same policy for another setting, which its refusals name.
func (p Policy) Setting(name string) Policy {
	p.setting = name
	return p
}

// Parse returns a Policy that allows the patterns. A pattern is an address (10.0.0.5), a range
// (10.0.0.0/8), a host name (gpu-1) or the names below one (*.gpu.lan), each with an optional port
// (gpu-1:8000, [::1]:8000); without a port it allows all.
func Parse(patterns []string) (Policy, error) {
	var p Policy

	for _, text := range patterns {
		one, err := parse(text)
		if err != nil {
			return Policy{}, err
		}

		p.allowed = append(p.allowed, one)
	}

	return p, nil
}

// CheckURL refuses, with a fault.Invalid, a URL whose host is a special address or a known name of one.
// CheckAddr checks the addresses of other names.
func (p Policy) CheckURL(u *url.URL) error { return p.CheckHost(u.Hostname(), portOf(u)) }

// CheckHost is CheckURL for a host, a name or an address, and a port.
func (p Policy) CheckHost(host string, port uint16) error {
	host = Canonical(host)

	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil:
		return p.CheckAddr(host, netip.AddrPortFrom(addr, port))
	case slices.Contains(loopbackNames, host) || strings.HasSuffix(host, ".localhost"):
		return p.CheckAddr(host, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	case slices.Contains(metadataNames, host) && !p.allows(host, netip.AddrPortFrom(netip.Addr{}, port)):
		return p.refused(host, "a cloud metadata service")
	case endsInNumber(host):
		return fault.New(fault.Invalid,
			"%q is neither a host name nor an address: write addresses as 192.0.2.1 or [2001:db8::1]",
			host)
	}

	return nil
}

// CheckAddr refuses, with a fault.Invalid, a connection to a special address. The host is the name or
// address as the URL has it.
func (p Policy) CheckAddr(host string, to netip.AddrPort) error {
	kind := special(to.Addr())
	if kind == "" || p.allows(strings.ToLower(strings.TrimSuffix(host, ".")), to) {
		return nil
	}

	return p.refused(host, kind)
}

func (p Policy) refused(host, kind string) error {
	return fault.New(fault.Invalid, "%s is %s, which is refused unless the operator allows it with %s",
		host, kind, cmp.Or(p.setting, gatewaySetting))
}

func (p Policy) allows(host string, to netip.AddrPort) bool {
	return slices.ContainsFunc(p.allowed, func(one pattern) bool { return one.matches(host, to) })
}

// pattern is one allowed host: a range of addresses, or a name.
type pattern struct {
	// the zero value: by name
	prefix netip.Prefix

	// in lower case; with below set, the suffix with its dot
	name  string
	below bool

	// 0: any
	port uint16
}

func (p pattern) matches(host string, to netip.AddrPort) bool {
	switch {
	case p.port != 0 && p.port != to.Port():
		return false
	case p.prefix.IsValid():
		return p.prefix.Contains(to.Addr().Unmap().WithZone(""))
	case p.below:
		return strings.HasSuffix(host, p.name)
	default:
		return host == p.name
	}
}

func parse(text string) (pattern, error) {
	host, port, err := cutPort(strings.TrimSpace(text))
	if err != nil {
		return pattern{}, fmt.Errorf("%w, got %q", err, text)
	}

	if addr, err := netip.ParseAddr(host); err == nil {
		return pattern{prefix: netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), port: port}, nil
	}

	if prefix, err := netip.ParsePrefix(host); err == nil {
		return pattern{prefix: prefix.Masked(), port: port}, nil
	}

	name, below := strings.CutPrefix(Canonical(host), "*")
	if below && !strings.HasPrefix(name, ".") || strings.Trim(name, ".") == "" || strings.ContainsAny(name, "*/:[]@ ") {
		return pattern{}, fmt.Errorf(
			"must be an address, a range such as 10.0.0.0/8, a host name or *.domain, with or without :port, got %q",
			text,
		)
	}

	return pattern{name: name, below: below, port: port}, nil
}

// cutPort splits off a port, if there is one. The colons of an IPv6 address without brackets do not begin a port.
func cutPort(text string) (host string, port uint16, err error) {
	if _, err := netip.ParseAddr(text); err == nil {
		return text, 0, nil
	}

	if _, err := netip.ParsePrefix(text); err == nil {
		return text, 0, nil
	}

	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return strings.Trim(text, "[]"), 0, nil
	}

	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("must have a port from 1 to 65535")
	}

	return host, uint16(n), nil
}

func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}

	if u.Scheme == "https" {
		return 443
	}

	return 80
}
