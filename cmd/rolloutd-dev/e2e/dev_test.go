package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// devOptions say how a rolloutd-dev differs from one that a user starts.
type devOptions struct {
	script   string   // played by its own scripted model; empty: the demo's
	modelURL string   // of endpoint "scripted", when it is not its own
	env      []string // more environment
	flags    []string // more flags
}

// dev is a running rolloutd-dev with a data folder of its own.
type dev struct {
	*process
	site
	metrics string // what Prometheus scrapes
	o       devOptions
	env     []string
	flags   []string
}

func startDev(t testing.TB, o devOptions) *dev {
	t.Helper()
	ports := freePorts(t, 6)
	at := site{url: "http://" + ports[0], temporal: ports[1], data: dataFolder(t)}
	d := &dev{site: at, metrics: "http://" + ports[4] + "/metrics", o: o}
	d.env = append([]string{
		"ROLLOUTD_LISTEN=" + ports[0],
		"ROLLOUTD_GATEWAY_LISTEN=" + ports[2],
		"ROLLOUTD_TRAINER_LISTEN=127.0.0.1:0",
		"ROLLOUTD_MODEL_LISTEN=" + ports[3],
		"ROLLOUTD_METRICS_LISTEN=" + ports[4],
		"ROLLOUTD_SANDBOX_WARM=0", // a test that wants warm sandboxes says so
	}, o.env...)
	if o.script != "" {
		file := filepath.Join(t.TempDir(), "script.yaml")
		require.NoError(t, os.WriteFile(file, []byte(o.script), 0o600))
		d.env = append(d.env, "ROLLOUTD_MODEL_SCRIPT="+file)
	}
	if o.modelURL != "" {
		d.env = append(d.env, "SCRIPTED_URL="+o.modelURL)
	}
	d.flags = append([]string{"--data", d.data, "--verbose", "--temporal-port", portOf(t, ports[1]), "--ui-port", portOf(t, ports[5])}, o.flags...)
	return d.restart(t)
}

// restart starts it again on the same data folder and ports.
func (d *dev) restart(t testing.TB) *dev {
	t.Helper()
	again := *d
	again.process = startProcess(t, d.env, "rolloutd-dev", d.flags...)
	again.ready(t, d.url+"/health")
	return &again
}
