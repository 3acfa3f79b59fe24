package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// devOptions are the differences from a rolloutd-dev that a user starts.
type devOptions struct {
	// of the built-in scripted model; empty: the demo's script
	script string

	// of endpoint "scripted"; empty: the built-in model
	modelURL string

	// additional environment
	env []string

	// additional flags
	flags []string

	// folder of rolloutd-dev and sandboxd; empty: the binaries under test
	binaries string
}

// dev is a running rolloutd-dev with a data folder of its own.
type dev struct {
	*process
	instance

	// the URL that Prometheus scrapes
	metrics string
	o       devOptions
	env     []string
	flags   []string
}

func startDev(t testing.TB, o devOptions) *dev {
	t.Helper()
	ports := freePorts(t, 6)
	at := instance{url: "http://" + ports[0], temporal: ports[1], data: dataFolder(t)}
	d := &dev{instance: at, metrics: "http://" + ports[4] + "/metrics", o: o}

	d.env = append([]string{
		"ROLLOUTD_LISTEN=" + ports[0],
		"ROLLOUTD_GATEWAY_LISTEN=" + ports[2],
		"ROLLOUTD_TRAINER_LISTEN=127.0.0.1:0",
		"ROLLOUTD_MODEL_LISTEN=" + ports[3],
		"ROLLOUTD_METRICS_LISTEN=" + ports[4],
		"ROLLOUTD_SANDBOX_WARM=0", // tests of warm sandboxes override it
	}, o.env...)
	if o.script != "" {
		file := filepath.Join(t.TempDir(), "script.yaml")
		require.NoError(t, os.WriteFile(file, []byte(o.script), 0o600))
		d.env = append(d.env, "ROLLOUTD_MODEL_SCRIPT="+file)
	}

	if o.modelURL != "" {
		d.env = append(d.env, "SCRIPTED_URL="+o.modelURL)
	}

	d.flags = append(
		[]string{
			"--data",
			d.data,
			"--verbose",
			"--temporal-port",
			portOf(t, ports[1]),
			"--ui-port",
			portOf(t, ports[5]),
		},
		o.flags...)

	return d.restart(t)
}

// restart starts rolloutd-dev on the data folder and ports of d.
func (d *dev) restart(t testing.TB) *dev {
	t.Helper()

	again := *d
	again.process = startBinary(t, d.env, filepath.Join(cmp.Or(d.o.binaries, bin), "rolloutd-dev"), d.flags...)
	again.ready(t, d.url+"/health")

	return &again
}
