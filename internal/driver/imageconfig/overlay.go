package imageconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// HostsFile is /etc/hosts of a sandbox without services.
const HostsFile = "127.0.0.1 localhost sandbox\n::1 localhost\n"

// Hosts is /etc/hosts of a sandbox in which more names mean 127.0.0.1.
func Hosts(names []string) string {
	if len(names) == 0 {
		return HostsFile
	}

	return HostsFile + "127.0.0.1 " + strings.Join(names, " ") + "\n"
}

// HostnameFile is /etc/hostname of a sandbox.
const HostnameFile = "sandbox\n"

// Overlay returns the additions to the image above its layers.
func (g *Guest) Overlay() launcher.Overlay {
	return launcher.Overlay{
		Folders:  append(g.Writable(), g.Volumes...),
		Points:   slices.DeleteFunc(slices.Clone(g.Changed), func(p string) bool { return p == "" }),
		Files:    map[string]string{"/etc/hosts": Hosts(g.Hosts), "/etc/hostname": HostnameFile},
		Accounts: accounts(g.Account.VerifierID()),
	}
}

// accounts are added to an image without them.
func accounts(verifier int) map[string][]launcher.Account {
	return map[string][]launcher.Account{
		"/etc/passwd": {
			{Name: "user", ID: wire.AgentID, Rest: ":1000:user:" + wire.AgentHome + ":/bin/bash"},
			{
				Name: "verifier",
				ID:   verifier,
				Rest: fmt.Sprintf(":%d:verifier:%s:/bin/bash", verifier, wire.VerifierHome),
			},
		},
		"/etc/group": {{Name: "user", ID: wire.AgentID, Rest: ":"}, {Name: "verifier", ID: verifier, Rest: ":"}},
	}
}
