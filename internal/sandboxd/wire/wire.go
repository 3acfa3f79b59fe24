// Package wire is what a sandbox's client and its sandboxd say to each other: HTTP/1.1 over a connection
// that only the host side can open.
//
//	GET    /v1/info
//	POST   /v1/lease                    Lease            → 204
//	PUT    /v1/processes/{name}         Process          → Status; starts it, or returns the one of that name
//	GET    /v1/processes/{name}?wait=5s                  → Status; with wait, returns at exit or after that long
//	GET    /v1/processes/{name}/log?stream=stdout&offset=0&limit=65536&wait=5s → bytes; header X-Log-Next: next offset, X-Log-Eof: bool;
//	                                                       with wait, returns when there is more than offset, at exit, or after that long
//	POST   /v1/processes/{name}/kill                     → Status; SIGKILL to its session, waits for its end
//	POST   /v1/exec/{id}?wait=5s        Exec             → ExecResult; runs it once, or returns the result of the call of that id
//	DELETE /v1/exec/{id}                                 → 204; kills the command, forgets the call
//	POST   /v1/pty/{name}/{id}?wait=5s  PTYCall          → PTYAnswer; the call of that id to the shell of that name, once
//	DELETE /v1/pty/{name}                                → 204; ends the shell and all that it started, forgets it
//	POST   /v1/kill-all                                  → 204; every process of the sandbox but sandboxd is dead, and no exec or
//	                                                       pty call starts one any more
//	POST   /v1/freeze                                    → 204; every process of the sandbox but sandboxd is stopped, and no exec or
//	                                                       pty call starts one any more
//	POST   /v1/thaw                                      → 204; the stopped processes go on
//	GET    /v1/listeners                                 → Listeners
//	PUT    /v1/files?path=&user=&mode=0644  bytes        → 204; parents are made, links are not followed
//	GET    /v1/files?path=&user=&limit=                  → bytes; a regular file only
//	DELETE /v1/files?path=&user=                         → 204; a whole tree, links not followed
//	PUT    /v1/tar?path=&user=&exact=true   tar          → 204; unpacked inside path, nothing outside it; with exact, what is not in
//	                                                       the tar is removed, and what is equal already is not written
//	GET    /v1/tar?path=&user=                           → tar of path
//	ANY    /v1/ports/{port}/...                          → forwarded to 127.0.0.1:{port} inside; see PortProcessHeader
//	POST   /v1/model  (Upgrade: rolloutd-model)          → 101, then the connection speaks HTTP/2 with the roles swapped:
//	                                                       sandboxd is the client, the host side serves the agent's calls
//	POST   /v1/network (Upgrade: rolloutd-network)       → 101, then the same: each request carries one connection that a process
//	                                                       made to NetworkAddr
//	POST   /v1/listen/{port}  (Upgrade: rolloutd-network) → 101, then the same for connections to 127.0.0.1:{port}
//	POST   /v1/connect/{port} (Upgrade: rolloutd-connect) → 101, then the bytes of a connection to 127.0.0.1:{port} inside, or else
//	                                                       to [::1]:{port}
//
// A file is read and written with the rights of the user that the request names (see VerifierUser), and
// belongs to that user.
//
// An error is JSON Error with the HTTP status of its kind.
package wire

import (
	"slices"
	"strings"
	"time"
)

// ModelAddr is the address of the agent's model.
const ModelAddr = "127.0.0.1:7000"

// NetworkAddr is the address of the HTTP proxy of a rollout that may use the network.
const NetworkAddr = "127.0.0.1:7001"

// NetworkUpgrade is the Upgrade token of the network channel. Each request on it carries one connection of
// a process, in both directions.
const NetworkUpgrade = "rolloutd-network"

// ConnectUpgrade is the Upgrade token of a connection to a port inside.
const ConnectUpgrade = "rolloutd-connect"

// ModelUpgrade is the Upgrade token of the model channel.
const ModelUpgrade = "rolloutd-model"

// CallIDHeader carries sandboxd's id of one call of the agent. It stays the same when the call is sent
// again because the gateway went away before answering.
const CallIDHeader = "X-Rolloutd-Call"

// OriginHeader names the process that made a call of the model channel. The caller's own header of this
// name is removed.
//
//   - "<name>": the named process itself holds the connection.
//   - "<name>/child": a descendant holds it, and no reply has reached the named process or a descendant yet; or the
//     descendant made a call before the first reply, and still runs the same program.
//   - "<name>/helper/child": a later child of the named process holds it, with the program of a caller before the first
//     reply. All callers before the first reply have ended: the agent starts a program for each call.
//   - "<name>/tool/child": another descendant holds it. A model may have started it.
//   - absent: no named process and none of their descendants holds it.
//
// Gateways of earlier versions read the last path element only: each of these is a child to them.
const OriginHeader = "X-Rolloutd-Origin"

// PortProcessHeader names, in a request to /v1/ports, the process that must listen on the port. The request
// is refused with the kind AgentFailed if that process has ended, or if another process listens there
// before or after the exchange.
const PortProcessHeader = "X-Rolloutd-Port-Process"

// LogNextHeader and LogEOFHeader describe a piece of a log; see the table above.
const (
	LogNextHeader = "X-Log-Next"
	LogEOFHeader  = "X-Log-Eof"
)

// PortErrorHeader marks an answer of /v1/ports as sandboxd's own Error, not the forwarded server's.
const PortErrorHeader = "X-Rolloutd-Port-Error"

// VerifierUser is the name of the user that grades. The empty name is the agent's user.
//
// If Info.SeparateUsers is true, the two have different user ids, and neither can signal, trace or read the
// other's processes and private files, except that the verifier's processes read and write the agent's
// files whatever their modes. The agent's user does not see the verifier's command lines either. If it is
// false, both names mean the same user id.
const VerifierUser = "verifier"

// User and group ids inside a sandbox with separate users. sandboxd itself is 0, or SupervisorID if the
// agent is a user of the image. The verifier is ImageVerifierID if that user is not plain root: images
// often give their own user the id 1001.
const (
	AgentID         = 1000
	VerifierID      = 1001
	ImageVerifierID = 65_529
	SupervisorID    = 65_530
)

// SystemPath is the part of a PATH with the system's programs. A PATH of a sandbox replaces it.
const SystemPath = "/usr/local/bin:/usr/bin:/bin"

// BaseEnv is the base environment of a sandbox's processes, by user. A process's own variables take precedence.
type BaseEnv struct {
	Agent    map[string]string `json:"agent,omitempty"`
	Verifier map[string]string `json:"verifier,omitempty"`
}

// ForAgent returns the environment and the PATH for a program of the verifier's that runs as the agent: it
// adds variables that the verifier's base lacks.
func (b BaseEnv) ForAgent(env []string, path string) ([]string, string) {
	if len(b.Agent) == 0 {
		return env, path
	}

	all := map[string]string{}

	for name, value := range b.Agent {
		if _, both := b.Verifier[name]; !both {
			all[name] = value
		}
	}

	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		all[name] = value
	}

	if own := b.Verifier["PATH"]; own != "" {
		path = strings.Replace(path, own, b.Agent["PATH"], 1)
		all["PATH"] = path
	}

	lines := make([]string, 0, len(all))
	for name, value := range all {
		lines = append(lines, name+"="+value)
	}

	slices.Sort(lines)

	return lines, path
}

// Folders of the agent.
const (
	AgentHome    = "/home/user"
	AgentWorkdir = AgentHome + "/workdir"

	// folder of temporary files, where every user makes them
	Tmp = "/tmp"

	// graded folders 0, 1 and so on of the image
	AgentGraded = AgentHome + "/.graded"

	// folders 0, 1 and so on that the agent changed elsewhere in the image
	AgentChanged = AgentHome + "/.changed"
)

// Workdir is the folder for which AgentWorkdir stands; "": itself.
type Workdir string

// Locate returns where a path is that may be at or below AgentWorkdir.
func (w Workdir) Locate(p string) string {
	rest, ok := strings.CutPrefix(p, AgentWorkdir)
	if w == "" || !ok || rest != "" && rest[0] != '/' {
		return p
	}

	return string(w) + rest
}

// Change is a changed path outside of the folders that are mounts of their own.
type Change struct {
	Path string `json:"path"`

	// a folder that fits a tar, and that the agent's user can read
	Folder bool `json:"folder,omitempty"`

	// size of its files, changed or not
	Bytes int64 `json:"bytes,omitempty"`
}

// MaxChanges bounds a list of changes.
const MaxChanges = 256

// Folders of the verifier. They exist in every sandbox; the first three belong to the verifier's user
// and have mode 0700.
const (
	// HOME of its processes
	VerifierHome  = "/verifier/home"
	VerifierTests = "/verifier/tests"
	VerifierLogs  = "/verifier/logs"
	// VerifierRun holds the socket of run-as-agent; it belongs to sandboxd, and the verifier can enter it.
	VerifierRun = "/verifier/run"
)

// ImageTests is where test scripts of container images find themselves. In a verifier's own image it is the image's folder,
// which is also at VerifierTests; else a link to that.
const ImageTests = "/tests"

// TestLinks returns where test scripts of container images find the verifier's folders: link → folder.
func TestLinks() map[string]string {
	return map[string]string{ImageTests: VerifierTests, "/logs/verifier": VerifierLogs}
}

// Info describes a sandboxd.
type Info struct {
	Version   string    `json:"version"`
	SandboxID string    `json:"sandbox_id"`
	StartedAt time.Time `json:"started_at"`
	// SeparateUsers reports whether sandboxd, the agent and the verifier have separate user ids.
	SeparateUsers bool `json:"separate_users"`
	// Shared lists the folders of a verifier's sandbox that the graded work may write.
	Shared []string `json:"shared,omitempty"`
}

// Listeners are what the sandbox's processes listen with, without sandboxd and the agent itself.
type Listeners struct {
	// Ports of TCP in ascending order, the first MaxListeners
	Ports []int `json:"ports"`
	// Processes is the number of other living processes of the sandbox, listening or not.
	Processes int `json:"processes"`
}

// MaxListeners bounds the ports of Listeners.
const MaxListeners = 256

// Lease extends the sandbox's life to TTL from now.
type Lease struct {
	TTLMillis int64 `json:"ttl_ms"`
}

// Process is a named process to start once. It gets a session of its own, exactly the environment Env, and
// Stdin. The first and the last KeepBytes of each output stream are kept in the sandbox.
type Process struct {
	Argv []string `json:"argv"`
	// User is the process's user: "" is the agent's, VerifierUser the verifier's.
	User string `json:"user,omitempty"`
	// Dispatch: programs that a verifier's process starts run beside it or with the work, by what they are;
	// see package runas.
	Dispatch bool              `json:"dispatch,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir,omitempty"`
	Stdin    []byte            `json:"stdin,omitempty"`
	// TimeoutMillis is the time after its start at which its session is killed; 0: never.
	TimeoutMillis int64 `json:"timeout_ms,omitempty"`
	// KeepBytes is the size of each kept end of each stream; 0: 1 MiB, the maximum.
	KeepBytes int `json:"keep_bytes,omitempty"`
	// PauseAfterMillis stops the process with SIGSTOP while it waits for its model: it has an open model
	// call, for that time it got neither a byte of an answer nor a request to /v1/ports, it sleeps, and it
	// has no children. It is resumed before it gets either. 0: never.
	PauseAfterMillis int64 `json:"pause_after_ms,omitempty"`
}

// Status is the status of a named process.
type Status struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`

	// stopped while it waits; see Process.PauseAfterMillis
	Paused bool `json:"paused,omitempty"`
	PID    int  `json:"pid"`

	// 128+signal if a signal killed it; meaningless while Running
	ExitCode  int       `json:"exit_code"`
	Signal    string    `json:"signal,omitempty"`
	TimedOut  bool      `json:"timed_out,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Age is the time since the start; Ran is the run time, zero while Running. Unlike the timestamps, both
	// are right when the clock is set.
	Age time.Duration `json:"age_ns"`
	Ran time.Duration `json:"ran_ns,omitempty"`

	// bytes written so far
	StdoutSize int64 `json:"stdout_size"`
	StderrSize int64 `json:"stderr_size"`
}

// Error is the body of every error.
type Error struct {
	// a fault.Kind
	Kind    string `json:"kind"`
	Message string `json:"message"`
}
