package nested

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// controlFD is the inner step's descriptor of the listening control socket.
const controlFD = 3

// outside prepares the machine or the container, starts the inner step in its namespaces, and waits for its end.
func outside(c Config) error {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)

	program, err := os.Executable()
	if err != nil {
		return err
	}

	control, err := listen()
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	defer control.Close()

	shared := inherited{first: controlFD + 1}

	log, namespaces := os.Stderr, inContainer()
	if c.Image == nil {
		if log, err = prepareMachine(&c, &shared, program); err != nil {
			return err
		}
		defer log.Close()

		namespaces = inMachine()
	} else if err := shared.addCounters(&c.Counters); err != nil {
		return fmt.Errorf("counters of the container: %w", err)
	}

	config, err := json.Marshal(c)
	if err != nil {
		return err
	}

	cmd := exec.Command(program, Inside, string(config))
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = log, log, "/", []string{"PATH=/usr/bin:/bin"}

	cmd.ExtraFiles = append([]*os.File{control}, shared.files...)
	cmd.SysProcAttr = namespaces

	return cmd.Run()
}

// prepareMachine adds the sandbox's files to the machine and sets its limits. It returns the open LogFile.
func prepareMachine(c *Config, shared *inherited, program string) (*os.File, error) {
	if err := addSandboxFiles(c, program); err != nil {
		return nil, err
	}

	log, err := os.OpenFile(LogFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}

	if err := bound(c, shared); err != nil {
		fmt.Fprintln(log, "the machine has no usable cgroups:", err)
	}

	return log, nil
}

func inMachine() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
			unix.CLONE_NEWCGROUP,
		UidMappings:                ids(),
		GidMappings:                ids(),
		GidMappingsEnableSetgroups: true,
		Credential:                 &syscall.Credential{Uid: 0, Gid: 0},
	}
}

// inContainer are the namespaces that separate the sandbox from the container's other processes and mounts;
// the container has the others.
func inContainer() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
}

// ids maps the sandbox's ids to the machine's, without the machine's root: its id would be enough to write
// to /proc/sys.
func ids() []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: baseID, Size: 1}, {ContainerID: wire.AgentID, HostID: baseID + 1, Size: 1},
		{ContainerID: wire.VerifierID, HostID: baseID + 2, Size: 1},
	}
}

// addSandboxFiles adds the sandbox's files to those of the machine.
func addSandboxFiles(c *Config, program string) error {
	accounts := func(user, grader string) []launcher.Account {
		return []launcher.Account{
			{Name: "user", ID: wire.AgentID, Rest: user},
			{Name: wire.VerifierUser, ID: wire.VerifierID, Rest: grader},
		}
	}
	line := func(id int, home string) string { return fmt.Sprintf(":%d::%s:/bin/bash", id, home) }

	o := launcher.Overlay{
		Points: []string{wire.AgentHome, verifier, Folder, "/tmp", "/var/tmp", "/run", "/dev", "/proc", "/sys"},
		Links:  map[string]string{Folder + "/bin/" + runas.Name: program},
		Accounts: map[string][]launcher.Account{
			"/etc/passwd": accounts(line(wire.AgentID, wire.AgentHome), line(wire.VerifierID, wire.VerifierHome)),
			"/etc/group":  accounts(":", ":"),
		},
	}
	if c.Verifier {
		o.Instead = wire.TestLinks()
	}

	if err := o.AddTo("/"); err != nil {
		return err
	}

	return os.Chmod(program, 0o755)
}

// listen creates the control socket, in a folder that no process of the sandbox can enter.
func listen() (*os.File, error) {
	if err := os.MkdirAll(controlFolder, 0o700); err != nil {
		return nil, err
	}

	if err := os.Chmod(controlFolder, 0o700); err != nil {
		return nil, err
	}

	if err := os.Remove(ControlSocket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: ControlSocket, Net: "unix"})
	if err != nil {
		return nil, err
	}

	l.SetUnlinkOnClose(false)
	file, err := l.File()

	return file, errors.Join(err, l.Close())
}
