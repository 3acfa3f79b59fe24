// Package runas is the program run-as-agent, by which a process of the verifier's user starts another
// program as the agent's user, in the place of the work.
//
// No process in a sandbox can change its user, so the helper asks a sandboxd to start the program, over a
// socket that only the verifier's user can reach. It passes its three streams, and waits for the program's
// end. The program runs in a session of its own, which is killed if the helper dies first. What the program
// leaves running is killed when it ends.
//
// Under other names (see Shims) the program decides by itself whether a program is the verifier's or the
// work's; see Dispatch.
package runas

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Name is the program name under which the sandboxd binary runs this helper.
const Name = "run-as-agent"

// Socket is sandboxd's socket for requests. Only the verifier's group can enter its folder.
const Socket = wire.VerifierRun + "/run-as-agent.sock"

// Request follows a message with the three streams.
type Request struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Path string   `json:"path"`
	Dir  string   `json:"dir"`
}

// Reply is sent when the program has ended, or could not be started.
type Reply struct {
	// 128+signal if a signal killed it
	ExitCode int `json:"exit_code"`

	// why it was not started
	Error string `json:"error,omitempty"`
}

// Exit statuses of a program that could not be started or was not found, as in env and timeout.
const (
	notStarted = 126
	notFound   = 127
)

// Main runs argv as the agent's user, with the agent's home, in the current folder if it is none of the verifier's and the
// agent's user may enter it, else in the workdir. It returns the program's exit status.
func Main(argv []string) int {
	status, err := run(argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, Name+":", err)
	}

	return status
}

func run(argv []string) (int, error) {
	if len(argv) == 0 {
		return notStarted, errors.New("names no program; usage: run-as-agent PROGRAM [ARGUMENT...]")
	}

	r := Request{
		Argv: argv,
		Env:  environ(os.Environ()),
		Path: cmp.Or(withoutShims(os.Getenv("PATH")), wire.SystemPath),
		Dir:  directory(),
	}

	verifier, err := isVerifier()
	if err != nil {
		return notStarted, err
	}

	if !verifier {
		return become(r)
	}

	handOver(r)

	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: Socket, Net: "unix"})
	if err != nil {
		return notStarted, err
	}
	defer conn.Close()

	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(0, 1, 2), nil); err != nil {
		return notStarted, err
	}

	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return notStarted, err
	}

	var reply Reply
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return notStarted, fmt.Errorf("sandboxd: %w", err)
	}

	if reply.Error != "" {
		return notStarted, errors.New(reply.Error)
	}

	return reply.ExitCode, nil
}

// isVerifier reports whether this process has a separate verifier's user: the folder of the socket then
// belongs to sandboxd, and to the verifier's group.
func isVerifier() (bool, error) {
	var st unix.Stat_t

	err := unix.Stat(wire.VerifierRun, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return false, nil
	}

	if err != nil {
		return false, fmt.Errorf("%s: %w", wire.VerifierRun, err)
	}

	return int(st.Gid) == os.Getgid() && int(st.Uid) != os.Getuid(), nil
}

// become executes the program instead of the helper, if the helper already has the agent's user.
func become(r Request) (int, error) {
	program, err := exec.LookPath(r.Argv[0])
	if errors.Is(err, exec.ErrNotFound) {
		// as sandboxd says it
		err = fmt.Errorf("argv: no program %q in PATH %q", r.Argv[0], r.Path)
	}

	if err == nil {
		err = os.Chdir(r.Dir)
	}

	if err == nil {
		err = unix.Exec(program, r.Argv, r.Env)
	}

	return notStarted, err
}

// environ returns the caller's environment with the agent's home, and without variables that name the
// verifier's folders.
func environ(env []string) []string {
	own := []string{"HOME=" + wire.AgentHome, "USER=user", "LOGNAME=user"}

	for _, e := range withoutVerifier(without(env, "PYTHONSAFEPATH", WorkFolders, InlineCode)) {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case name == "PATH":
			own = append(own, "PATH="+withoutShims(value))
		case name == "HOME" || name == "USER" || name == "LOGNAME" || name == "PWD" || name == "OLDPWD":
		case strings.HasPrefix(value, "/verifier"):
		default:
			own = append(own, e)
		}
	}

	return own
}

// without returns the environment without some variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

func withoutShims(path string) string { return strings.TrimPrefix(path, Shims+":") }

// directory returns the current folder if the place of the work has it, else the workdir.
func directory() string {
	// not os.Getwd, which trusts PWD, where links may stand
	dir, err := unix.Getwd()
	if err != nil || isVerifiers(dir) || !(surroundings{work: workFolders(os.Getenv)}).inWork(dir) && !othersMayEnter(dir) {
		return wire.AgentWorkdir
	}

	return dir
}

// isVerifiers reports whether a folder is one of the verifier's, which are empty in the place of the work.
func isVerifiers(dir string) bool {
	return within(dir, filepath.Dir(wire.VerifierHome)) || within(dir, wire.ImageTests)
}

// othersMayEnter reports whether users other than the owners of a folder and of those above it may enter it.
func othersMayEnter(dir string) bool {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil || st.Mode()&mayEnter == 0 {
			return false
		}
	}

	return true
}
