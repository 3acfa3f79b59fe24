package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// AllowList is hosts that may be reached, by name. The zero value allows none. It is safe for concurrent use.
type AllowList struct {
	any     bool
	allowed []pattern
}

// maxAllowed bounds the entries of a list.
const maxAllowed = 1000

// ParseAllow makes a list. An entry is a host name (example.org), the names below one (*.example.org), an
// address, each with or without a port, or "*" for every host. An entry without a port allows ports 80 and
// 443.
func ParseAllow(entries []string) (AllowList, error) {
	var l AllowList
	if len(entries) > maxAllowed {
		return l, fmt.Errorf("must have at most %d hosts, got %d", maxAllowed, len(entries))
	}

	for _, text := range entries {
		if strings.TrimSpace(text) == "*" {
			l.any = true
			continue
		}

		one, err := parse(text)
		if err != nil {
			return AllowList{}, err
		}

		if one.prefix.IsValid() && !one.prefix.IsSingleIP() {
			return AllowList{}, fmt.Errorf("must be a host name, *.domain or one address, not a range, got %q", text)
		}

		l.allowed = append(l.allowed, one)
	}

	return l, nil
}

// Empty reports whether nothing is allowed.
func (l AllowList) Empty() bool { return !l.any && len(l.allowed) == 0 }

// Allows reports whether host, a name or an address, may be reached at port.
func (l AllowList) Allows(host string, port uint16) bool {
	if l.any {
		return true
	}

	host = Canonical(host)
	// invalid: a name
	addr, _ := netip.ParseAddr(host)

	return slices.ContainsFunc(l.allowed, func(p pattern) bool {
		if p.port == 0 && port != 80 && port != 443 {
			return false
		}

		if p.prefix.IsValid() && !addr.IsValid() {
			return false
		}

		return p.matches(host, netip.AddrPortFrom(addr, port))
	})
}

// Covers reports whether everything that the entry allows is allowed.
func (l AllowList) Covers(entry string) bool {
	one, err := ParseAllow([]string{entry})
	if err != nil || one.any {
		return err == nil && l.any
	}

	if l.any {
		return true
	}

	p := one.allowed[0]

	return slices.ContainsFunc(l.allowed, func(q pattern) bool {
		switch {
		case q.port != p.port:
			return q.port == 0 && (p.port == 80 || p.port == 443) && q.coversHost(p)
		default:
			return q.coversHost(p)
		}
	})
}

// coversHost reports whether every host of o is one of p's.
func (p pattern) coversHost(o pattern) bool {
	switch {
	case p.prefix.IsValid() || o.prefix.IsValid():
		return p.prefix == o.prefix
	case p.below:
		return strings.HasSuffix(o.name, p.name)
	default:
		return !o.below && o.name == p.name
	}
}

// Canonical is the form in which host names are compared: lower case, without a dot at the end.
func Canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
