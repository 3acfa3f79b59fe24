package listen

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// AllowedHost reports whether the Host header of a request names this server: by a loopback name or address,
// by the address that the connection came to, or by one of names, which are host names without a port.
func AllowedHost(r *http.Request, names []string) bool {
	host := hostname(r.Host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || contains(names, host) {
		return true
	}

	ip, err := netip.ParseAddr(host)

	return err == nil && (ip.IsLoopback() || ip == localAddr(r))
}

// RequireHost lets requests through that AllowedHost allows; refuse answers all others. It protects servers that ask
// for no token against DNS rebinding.
//
// The page of another site cannot read a server on loopback under its own origin, but it can let its own name resolve
// to 127.0.0.1. The browser then takes the server for the page's own. Such requests still carry the page's name in the
// Host header.
func RequireHost(names []string, refuse func(w http.ResponseWriter, why string), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !AllowedHost(r, names) {
			refuse(
				w,
				"the Host header names another server: use localhost or 127.0.0.1, or list the name in serve.hosts (ROLLOUTD_HOSTS)",
			)

			return
		}

		next.ServeHTTP(w, r)
	})
}

// hostname is a host without port, brackets and the dot that may end a full name, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}

	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func contains(names []string, host string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// localAddr is the address that the request's connection came to; the zero value where it is not known.
func localAddr(r *http.Request) netip.Addr {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if local == nil {
		return netip.Addr{}
	}

	return local.AddrPort().Addr().Unmap()
}
