package egress

import (
	"net/netip"
	"strconv"
	"strings"
)

// loopbackNames are the names of this machine in /etc/hosts on common systems.
var loopbackNames = []string{"localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"}

// metadataNames are the clouds' names of their metadata services.
var metadataNames = []string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
}

// reserved are ranges of the IANA registries of special-purpose addresses that netip has no method for.
// They hold neighbors of this machine (shared address space, in which one cloud has its metadata service),
// translations of IPv4 addresses, or nothing. The last one is a public address at which every machine in Azure finds the
// platform's own service.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("168.63.129.16/32"),
}

// nat64 and sixToFour are prefixes of IPv6 addresses that carry an IPv4 address: in the last four bytes, or
// from the third on.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// special returns the kind of an address outside of the public Internet; "": it is public.
func special(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")

	bytes := addr.As16()
	switch {
	case nat64.Contains(addr):
		return special(netip.AddrFrom4([4]byte(bytes[12:16])))
	case sixToFour.Contains(addr):
		return special(netip.AddrFrom4([4]byte(bytes[2:6])))
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsUnspecified():
		return "an unspecified address"
	case addr.IsPrivate():
		return "a private address"
	case addr.IsLinkLocalUnicast(), addr.IsLinkLocalMulticast(), addr.IsInterfaceLocalMulticast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	}

	for _, r := range reserved {
		if r.Contains(addr) {
			return "a reserved address"
		}
	}

	return ""
}

// endsInNumber reports whether some resolver would read a host as an IPv4 address, such as 127.1,
// 0x7f000001 or 2130706433.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)

	return err == nil || last != "" && strings.Trim(last, "0123456789") == ""
}
