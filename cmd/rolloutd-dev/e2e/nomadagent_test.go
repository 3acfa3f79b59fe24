package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// nomadAgent is a real Nomad: a server and a client in one process. Its state survives the process.
type nomadAgent struct {
	*process
	url, config, data, driver string
	client                    *api.Client

	// nil: no access control
	guard *nomadAccess
}

// nomadOptions are a test's changes to its Nomad.
type nomadOptions struct {
	// empty: raw_exec
	driver string

	// configuration of the driver; empty: that of raw_exec
	plugin string

	// additional configuration of the client
	client string
	guard  *nomadAccess
}

// startNomad starts the binary that ROLLOUTD_TEST_NOMAD names. It skips the test if the variable is not set
// or the test does not run as root.
func startNomad(t *testing.T, o nomadOptions) *nomadAgent {
	t.Helper()

	if os.Getenv("ROLLOUTD_TEST_NOMAD") == "" {
		t.Skip("ROLLOUTD_TEST_NOMAD names no Nomad (deploy/suite.sh nomad)")
	}

	if os.Getuid() != 0 {
		t.Skip("Nomad's client needs root")
	}

	p := freePorts(t, 3)
	a := &nomadAgent{
		url:    "http://" + p[0],
		config: filepath.Join(t.TempDir(), "agent.hcl"),
		data:   t.TempDir(),
		driver: cmp.Or(o.driver, pool.DriverRawExec),
		guard:  o.guard,
	}
	t.Cleanup(func() { a.clean(t) })
	text := fmt.Sprintf(`
data_dir             = %q
bind_addr            = "127.0.0.1"
disable_update_check = true
ports     { 
  http = %s
  rpc  = %s
  serf = %s
}
advertise { 
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
server { 
  enabled          = true
  bootstrap_expect = 1
}
client { 
  enabled = true
  # Nomad gives ports without a look at who listens; these are none of freePorts
  min_dynamic_port = 12000
  max_dynamic_port = 14999
  %s
  options = { 
    "driver.allowlist"     = %q
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"
  }
}
%s
`, a.data, portOf(t, p[0]), portOf(t, p[1]), portOf(t, p[2]), o.client, a.driver, cmp.Or(o.plugin, rawExec))

	c := &api.Config{Address: a.url}
	if a.guard != nil {
		text += a.guard.agent()
		a.url = "https://" + p[0]
		c = a.guard.client(a.url)
	}

	require.NoError(t, os.WriteFile(a.config, []byte(text), 0o600))

	var err error

	a.client, err = api.NewClient(c)
	require.NoError(t, err)
	a.start(t)

	return a
}

const rawExec = `
plugin "raw_exec" { 
  config { 
    enabled = true
  }
}`

func (a *nomadAgent) start(t *testing.T) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "nomad-*.log")
	require.NoError(t, err)

	defer log.Close()

	p := &process{
		cmd: exec.Command(os.Getenv("ROLLOUTD_TEST_NOMAD"), "agent", "-config", a.config),
		log: log.Name(),
	}
	// clean finds its child processes by this variable
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(environ(), "NOMAD_TEST_DATA="+a.data+"/")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.done, err = child.Start(p.cmd, syscall.SIGINT)
	require.NoError(t, err)

	a.process = p

	t.Cleanup(func() {
		p.stop(t)

		if t.Failed() {
			t.Logf("nomad:\n%s", tail(p.log))
		}
	})

	if a.guard != nil {
		a.guard.open(t, a.client)
	}

	require.Eventually(t, func() bool {
		nodes, _, err := a.client.Nodes().List(nil)

		return err == nil && len(nodes) == 1 && nodes[0].Status == api.NodeStatusReady &&
			nodes[0].Drivers[a.driver] != nil &&
			nodes[0].Drivers[a.driver].Healthy
	}, 5*time.Minute, 100*time.Millisecond, "Nomad has no node that is ready")
}

// job returns the job with the id, or nil if there is none.
func (a *nomadAgent) job(t *testing.T, id string) *api.Job {
	t.Helper()

	job, _, err := a.client.Jobs().Info(id, nil)

	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.StatusCode() == http.StatusNotFound {
		return nil
	}

	require.NoError(t, err)

	return job
}

// live returns the ids of the job's running and pending allocations.
func (a *nomadAgent) live(t *testing.T, id string) (ids []string) {
	t.Helper()

	all, _, err := a.client.Jobs().Allocations(id, true, nil)
	require.NoError(t, err)

	for _, one := range all {
		if one.ClientStatus == api.AllocClientStatusRunning || one.ClientStatus == api.AllocClientStatusPending {
			ids = append(ids, one.ID)
		}
	}

	return ids
}

// purge stops the job and waits until it has no live allocation, so that a failed test leaves no processes.
func (a *nomadAgent) purge(t *testing.T, id string) {
	if _, _, err := a.client.Jobs().Deregister(id, false, nil); err != nil {
		// the agent or the job does not exist any more
		return
	}

	require.Eventually(t, func() bool { return len(a.live(t, id)) == 0 }, 5*time.Minute, 100*time.Millisecond)
}

// clean kills the processes that a killed agent has not ended. It also unmounts the secrets folders of the
// allocations, which the agent does not unmount.
func (a *nomadAgent) clean(t *testing.T) {
	all, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)

	for _, proc := range all {
		// the process may have ended
		env, _ := os.ReadFile(filepath.Join(proc, "environ"))

		args, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil &&
			strings.Contains(string(env)+string(args), a.data+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}

	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)

	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, a.data+"/") {
			require.NoError(t, syscall.Unmount(at, syscall.MNT_DETACH))
		}
	}
}
