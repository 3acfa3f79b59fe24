package imageconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/rollout"
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

// Overlay returns the additions to the image above its layers. The home and the folder for temporary files are the
// image's.
func (g *Guest) Overlay() launcher.Overlay {
	o := launcher.Overlay{
		Folders:  append(g.folders(), g.Volumes...),
		Points:   g.points(),
		Shared:   []string{wire.Tmp},
		Files:    map[string]string{"/etc/hosts": Hosts(g.Hosts), "/etc/hostname": HostnameFile},
		Accounts: accounts(g.Account.VerifierID()),
	}

	// also where the image has files of its own there, such as a reward of the author's trials
	if g.Verifier {
		o.Instead = wire.TestLinks()
	}

	// the image may have made files there
	if g.OwnImage {
		delete(o.Instead, wire.ImageTests)
		o.Points = append(o.Points, wire.ImageTests)
	}

	return o
}

// points returns the folders that are mount points, or the sandbox's own: of the home, and those that the agent changed.
func (g *Guest) points() []string {
	all := []string{wire.AgentHome, wire.Tmp}
	if !rollout.InHome(g.Workdir) {
		all = append(all, wire.AgentWorkdir)
	}

	all = slices.AppendSeq(all, maps.Keys(g.Names()))

	for n, p := range g.Changed {
		if p != "" {
			all = append(all, p, wire.AgentChanged+"/"+strconv.Itoa(n))
		}
	}

	return all
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
