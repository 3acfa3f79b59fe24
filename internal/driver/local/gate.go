package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/isolationprobe"
)

// passFile records a passed probe. Failures are not recorded.
const passFile = "probe.json"

// probePurpose marks the probe's own sandbox, which List omits.
const probePurpose = "probe"

// pass is the configuration for which the probe passed.
type pass struct {
	// boot id, which changes with the kernel
	Boot   string   `json:"boot"`
	Root   bool     `json:"root"`
	Bwrap  fileMark `json:"bwrap"`
	Helper fileMark `json:"sandboxd"`
	Filter int      `json:"filter"`
}

// fileMark identifies a version of a file.
type fileMark struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mod_time"`
}

func markOf(path string) fileMark {
	st, err := os.Stat(path)
	if err != nil {
		return fileMark{Path: path}
	}

	return fileMark{Path: path, Size: st.Size(), ModTime: st.ModTime().UnixNano()}
}

func (d *Driver) currentPass() pass {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")

	return pass{
		Boot: strings.TrimSpace(string(boot)), Root: d.uids != nil,
		Bwrap: markOf(d.bwrap), Helper: markOf(d.sandboxd), Filter: len(d.filter),
	}
}

// Probe tries to escape from inside a sandbox, once per boot of this machine. The error lists the attempts
// that were not refused, or why no sandbox could be created. The first Create calls it too; a worker calls
// it before it takes work.
func (d *Driver) Probe(ctx context.Context) error {
	d.probing.Lock()
	defer d.probing.Unlock()

	if d.probed {
		return nil
	}

	path := filepath.Join(d.dir, passFile)
	want := d.currentPass()

	if data, err := os.ReadFile(path); err == nil {
		var have pass
		if json.Unmarshal(data, &have) == nil && have == want && want.Boot != "" {
			d.probed = true
			return nil
		}
	}

	if _, err := d.probe(ctx); err != nil {
		return err
	}

	data, err := json.Marshal(want)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}

	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "keep the result of the probe")
	}

	d.probed = true

	return nil
}

// probe runs the probe in a sandbox of its own and returns its findings. The error lists everything that
// was not refused.
func (d *Driver) probe(ctx context.Context) ([]isolationprobe.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()

	host, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "probe")
	}
	defer host.Close()

	id := "probe-" + rand.Text()
	defer func() { _ = d.Destroy(context.WithoutCancel(ctx), id) }()

	findings, err := d.runProbe(ctx, id, host.Addr().String())
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "probe the sandbox")
	}

	var open []string

	for _, f := range findings {
		if !f.Refused {
			open = append(open, f.Name)
		}
	}

	if len(open) > 0 {
		return findings, fault.New(fault.Unavailable, "refusing to run: inside a sandbox it was possible to %s",
			strings.Join(open, ", to "))
	}

	d.log.Debug("the sandbox holds", "probes", len(findings))

	return findings, nil
}

// probeSpec returns the spec of a small sandbox.
func probeSpec() driver.Spec {
	return driver.Spec{
		CPU: 1, MemoryMiB: 256, PIDs: 64, HomeMiB: 16, TmpMiB: 16, Lease: 2 * startTime,
		Labels: map[string]string{driver.LabelPurpose: probePurpose},
	}
}
