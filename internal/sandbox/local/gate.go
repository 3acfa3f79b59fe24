package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandboxd/probe"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// verdictFile keeps the probe's good verdict; a bad one is never kept.
const verdictFile = "probe.json"

// probePurpose marks the probe's own sandbox, which is nobody's to list.
const probePurpose = "probe"

// verdict says for what the probe found everything refused.
type verdict struct {
	Boot   string   `json:"boot"` // of the kernel: an update takes a restart
	Root   bool     `json:"root"`
	Bwrap  fileMark `json:"bwrap"`
	Helper fileMark `json:"sandboxd"`
	Filter int      `json:"filter"`
}

// fileMark tells a file from one that replaced it.
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

func (d *Driver) wantedVerdict() verdict {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return verdict{
		Boot: strings.TrimSpace(string(boot)), Root: d.uids != nil,
		Bwrap: markOf(d.bwrap), Helper: markOf(d.sandboxd), Filter: len(d.filter),
	}
}

// Probe tries the ways out from inside a sandbox, once per boot of this machine; an error says which were not refused, or why
// there was no sandbox to try from. The first Create does it too, but a worker wants to know before it takes work on.
func (d *Driver) Probe(ctx context.Context) error {
	d.probing.Lock()
	defer d.probing.Unlock()
	if d.probed {
		return nil
	}
	path := filepath.Join(d.dir, verdictFile)
	want := d.wantedVerdict()
	if data, err := os.ReadFile(path); err == nil {
		var have verdict
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
		return fault.Wrap(fault.Unavailable, err, "keep the probe's verdict")
	}
	d.probed = true
	return nil
}

// probe runs the probe in a sandbox of its own and returns what it found; anything that was not refused is an error.
func (d *Driver) probe(ctx context.Context) ([]probe.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "probe")
	}
	defer host.Close()
	id := "probe-" + rand.Text()
	backend := sandbox.New(ungated{d}, sandbox.Options{Defaults: driver.Spec{Lease: 2 * startTime}})
	defer func() { _ = backend.Destroy(context.WithoutCancel(ctx), id) }()
	findings, err := runProbe(ctx, backend, id, host.Addr().String())
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
		return findings, fault.New(fault.Unavailable, "refusing to run: inside a sandbox it was possible to %s", strings.Join(open, ", to "))
	}
	d.log.Debug("the sandbox holds", "probes", len(findings))
	return findings, nil
}

func runProbe(ctx context.Context, b *sandbox.Backend, id, hostAddr string) ([]probe.Finding, error) {
	s, err := b.Create(ctx, id, rollout.Sandbox{}, map[string]string{driver.LabelPurpose: probePurpose})
	if err != nil {
		return nil, err
	}
	if _, err := s.Start(ctx, "probe", wire.Process{Argv: []string{sandboxdMount, "probe", hostAddr}}); err != nil {
		return nil, err
	}
	st, err := s.Wait(ctx, "probe", startTime)
	if err != nil {
		return nil, err
	}
	out, err := s.Tail(ctx, "probe", "stdout", 1<<20)
	if err != nil {
		return nil, err
	}
	var findings []probe.Finding
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&findings); err != nil || len(findings) == 0 || st.ExitCode != 0 {
		return nil, errors.Join(err, fmt.Errorf("it ended with %d and said %.200q", st.ExitCode, out))
	}
	return findings, nil
}

// ungated makes sandboxes for the probe itself.
type ungated struct{ *Driver }

// Create implements driver.Driver.
func (u ungated) Create(ctx context.Context, id string, spec driver.Spec) error {
	return u.create(ctx, id, spec)
}
