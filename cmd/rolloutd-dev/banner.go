package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
	"github.com/rolloutd/rolloutd/internal/daemon"
)

// place is an address in the banner.
type place struct{ name, address, note string }

// places returns the addresses of a process with all roles.
func places(at daemon.Addresses, web bool, ui *devserver.UI) []place {
	all := []place{{"OpenEnv server", "http://" + at.Serve, ""}}
	if web {
		all = append(all, place{"Web page", "http://" + at.Serve + "/web/", ""})
	}

	all = append(all, uiPlace(ui)...)
	if at.Metrics != "" {
		all = append(all, place{"Metrics", "http://" + at.Metrics + "/metrics", ""})
	}

	return append(all, place{"Scripted model", "http://" + at.Model + "/v1", "endpoint \"scripted\""})
}

func uiPlace(ui *devserver.UI) []place {
	if ui == nil {
		return nil
	}

	return []place{{"Temporal UI", ui.URL(), ""}}
}

// banner prints the addresses. The caller waits until all of them answer.
func banner(w io.Writer, all []place, data, log string, took time.Duration) {
	fmt.Fprintf(w, "rolloutd-dev %s is ready (%.1f s)\n\n", daemon.Version, took.Seconds())

	for _, p := range all {
		fmt.Fprintf(w, "  %-15s %s\n", p.name, strings.TrimSpace(p.address+"  "+p.note))
	}

	fmt.Fprintf(w, "  %-15s %s\n", "Data", data)

	if log != "" {
		fmt.Fprintf(w, "  %-15s %s\n", "Log", log)
	}

	fmt.Fprintf(w, "\nCtrl-C stops it; running rollouts continue at the next start.\n\n")
}
