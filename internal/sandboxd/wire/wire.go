// Package wire is what a sandbox's client and its sandboxd say to each other: HTTP/1.1 over a connection that only the host
// side can open.
//
//	GET    /v1/info
//	POST   /v1/lease                    Lease            → 204
//	PUT    /v1/processes/{name}         Process          → Status; starts it, or returns the one of that name
//	GET    /v1/processes/{name}?wait=5s                  → Status; with wait, returns at exit or after that long
//	GET    /v1/processes/{name}/log?stream=stdout&offset=0&limit=65536 → bytes; header X-Log-Next: next offset, X-Log-Eof: bool
//	POST   /v1/processes/{name}/kill                     → Status; SIGKILL to its session, waits for its end
//	POST   /v1/exec/{id}?wait=5s        Exec             → ExecResult; runs it once, or returns the result of the call of that id
//	DELETE /v1/exec/{id}                                 → 204; kills the command, forgets the call
//	POST   /v1/pty/{name}/{id}?wait=5s  PTYCall          → PTYAnswer; the call of that id to the shell of that name, once
//	POST   /v1/kill-all                                  → 204; every process of the sandbox but sandboxd is dead, and no exec or
//	                                                       pty call starts one any more
//	PUT    /v1/files?path=&user=&mode=0644  bytes        → 204; parents are made, links are not followed
//	GET    /v1/files?path=&user=&limit=                  → bytes; a regular file only
//	DELETE /v1/files?path=&user=                         → 204; a whole tree, links not followed
//	PUT    /v1/tar?path=&user=              tar          → 204; unpacked inside path, nothing outside it
//	GET    /v1/tar?path=&user=                           → tar of path
//	ANY    /v1/ports/{port}/...                          → forwarded to 127.0.0.1:{port} inside; see PortProcessHeader
//	POST   /v1/model  (Upgrade: rolloutd-model)          → 101, then the connection speaks HTTP/2 with the roles swapped:
//	                                                       sandboxd is the client, the host side serves the agent's calls
//
// A file is read and written with the rights of the user that the request names (see VerifierUser), and belongs to that user.
//
// An error is JSON Error with the HTTP status of its kind.
package wire

import "time"

// ModelAddr is where the agent finds its model.
const ModelAddr = "127.0.0.1:7000"

// ModelUpgrade is the Upgrade token of the model channel.
const ModelUpgrade = "rolloutd-model"

// CallIDHeader carries sandboxd's id of one call of the agent. It stays the same when the call is sent again because the
// gateway went away before it had answered.
const CallIDHeader = "X-Rolloutd-Call"

// OriginHeader carries, with each call of the model channel, which process made the call: "<name>" when the named process itself
// holds the connection, "<name>/child" when a descendant of it does. It is absent otherwise. What the caller itself sends under
// this name is removed.
const OriginHeader = "X-Rolloutd-Origin"

// PortProcessHeader names, in a request to /v1/ports, the process that must listen on the port. A request is refused with the
// kind AgentFailed when that process has ended, or when any other process listens there before or after the exchange.
const PortProcessHeader = "X-Rolloutd-Port-Process"

// LogNextHeader and LogEOFHeader describe a piece of log; see the table above.
const (
	LogNextHeader = "X-Log-Next"
	LogEOFHeader  = "X-Log-Eof"
)

// PortErrorHeader marks an answer of /v1/ports as sandboxd's own Error, not the forwarded server's.
const PortErrorHeader = "X-Rolloutd-Port-Error"

// VerifierUser names the user that grades. The empty name is the agent's user.
//
// Where Info.SeparateUsers is true, the two have different user ids, and neither can signal, trace or read the other's processes
// and private files, except that the verifier's processes read and write the agent's files whatever their modes. The command
// lines of processes are hidden from the agent's user too. Where it is false both names mean
// the same user id.
const VerifierUser = "verifier"

// User and group ids inside a sandbox whose users are separate. sandboxd itself is 0.
const (
	AgentID    = 1000
	VerifierID = 1001
)

// Folders of the agent.
const (
	AgentHome    = "/home/user"
	AgentWorkdir = AgentHome + "/workdir"
)

// Folders of the verifier. They exist in every sandbox; the first three belong to the verifier's user
// and have mode 0700.
const (
	VerifierHome  = "/verifier/home" // HOME of its processes
	VerifierTests = "/verifier/tests"
	VerifierLogs  = "/verifier/logs"
	// VerifierRun holds the socket of run-as-agent; it is sandboxd's, and the verifier can enter it.
	VerifierRun = "/verifier/run"
)

// Info describes the sandboxd that answers.
type Info struct {
	Version   string    `json:"version"`
	SandboxID string    `json:"sandbox_id"`
	StartedAt time.Time `json:"started_at"`
	// SeparateUsers says that sandboxd, the agent and the verifier have user ids of their own.
	SeparateUsers bool `json:"separate_users"`
}

// Lease puts the sandbox's end off to TTL from now.
type Lease struct {
	TTLMillis int64 `json:"ttl_ms"`
}

// Process is a named process to start once. It gets its own session, an environment of exactly Env, and stdin from Stdin.
// Its output is kept in the sandbox, bounded: the first and the last KeepBytes of each stream.
type Process struct {
	Argv []string `json:"argv"`
	// User runs the process: "" is the agent's user, VerifierUser the verifier's.
	User  string            `json:"user,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Dir   string            `json:"dir,omitempty"`
	Stdin []byte            `json:"stdin,omitempty"`
	// TimeoutMillis kills the session that long after its start; 0: never.
	TimeoutMillis int64 `json:"timeout_ms,omitempty"`
	// KeepBytes is how much of each end of each stream is kept; 0: 1 MiB, which is the most.
	KeepBytes int `json:"keep_bytes,omitempty"`
}

// Exec is a command to run once under a call id. The answer comes at its end, or after the wait of the request.
type Exec struct {
	Process
}

// ExecResult is the result of an Exec. While Running its output is not there yet.
type ExecResult struct {
	Status
	Stdout Output `json:"stdout,omitzero"`
	Stderr Output `json:"stderr,omitzero"`
}

// Output is what a stream kept: its first and its last bytes, and how many bytes between them were dropped.
type Output struct {
	Head    []byte `json:"head,omitempty"`
	Tail    []byte `json:"tail,omitempty"`
	Omitted int64  `json:"omitted,omitempty"`
}

// Len is the number of bytes kept.
func (o Output) Len() int { return len(o.Head) + len(o.Tail) }

// Status is how a named process stands.
type Status struct {
	Name      string    `json:"name"`
	Running   bool      `json:"running"`
	PID       int       `json:"pid"`
	ExitCode  int       `json:"exit_code"` // 128+signal when killed by one; meaningless while Running
	Signal    string    `json:"signal,omitempty"`
	TimedOut  bool      `json:"timed_out,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Age is the time since the start, and Ran that from the start to the end, zero while Running. Unlike the two points in time
	// they hold when a clock is set.
	Age        time.Duration `json:"age_ns"`
	Ran        time.Duration `json:"ran_ns,omitempty"`
	StdoutSize int64         `json:"stdout_size"` // bytes written so far
	StderrSize int64         `json:"stderr_size"`
}

// Error is the body of every failure.
type Error struct {
	Kind    string `json:"kind"` // a fault.Kind
	Message string `json:"message"`
}

// Self is sandboxd's own program, as a process that it starts names it, and FileTool its argument that asks for a file tool: the
// next argument names the tool, stdin has its arguments as a JSON object, and stdout gets a FileAnswer.
const (
	Self     = "/proc/self/exe"
	FileTool = "file"
)

// FileAnswer is the answer of a file tool.
type FileAnswer struct {
	Content string `json:"content"`
	// Error says what was wrong with the arguments or the file.
	Error string `json:"error,omitempty"`
	// Size is that of the file in bytes, of a list the number of its entries.
	Size int64 `json:"size"`
}

// Actions of a PTYCall.
const (
	PTYStart   = "start"   // starts the shell or, where it runs, sets the size of its screen
	PTYRun     = "run"     // runs Command in the shell and waits for its end
	PTYKeys    = "keys"    // types Keys
	PTYCapture = "capture" // returns the screen
	PTYStream  = "stream"  // returns new lines of the recording
	PTYStop    = "stop"    // ends the shell and all that it started
)

// PTYCall is a call to a shell on a pseudo terminal, which starts when a call first needs it.
type PTYCall struct {
	Action string `json:"action"`
	// Shell is how the shell starts; its Argv must be bash.
	Shell Process `json:"shell"`
	// Cols and Rows are the size of the screen; 0: 120 and 40.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
	// Command is what PTYRun runs, for at most TimeoutMillis. It is killed then; the shell lives on.
	Command       string `json:"command,omitempty"`
	TimeoutMillis int64  `json:"timeout_ms,omitempty"`
	// Keys are what PTYKeys types: names of keys as tmux has them (Enter, C-c, Up), or text. The answer comes after MinWaitMillis and,
	// with Block, once the shell is at its prompt again, but not later than TimeoutMillis.
	Keys          []string `json:"keys,omitempty"`
	Block         bool     `json:"block,omitempty"`
	MinWaitMillis int64    `json:"min_wait_ms,omitempty"`
	// Entire makes PTYCapture return what was printed since the start, within bounds, and not the screen alone.
	Entire bool `json:"entire,omitempty"`
	// MaxBytes bounds the lines of a PTYStream; Reset starts from the oldest line that is kept.
	MaxBytes int  `json:"max_bytes,omitempty"`
	Reset    bool `json:"reset,omitempty"`
}

// PTYAnswer is the answer to a PTYCall.
type PTYAnswer struct {
	Running bool `json:"running,omitempty"` // the call has not ended within the wait of the request
	// Error says what was wrong with the call, such as a command that is not complete.
	Error string `json:"error,omitempty"`
	// Output is what the command of PTYRun printed, with its control sequences.
	Output   Output `json:"output,omitzero"`
	ExitCode int    `json:"exit_code"` // of the command, or of the shell when it Ended
	TimedOut bool   `json:"timed_out,omitempty"`
	Ended    bool   `json:"ended,omitempty"` // the shell has ended; the next call starts another
	// Text is the screen, or the lines of the recording in the form of asciicast v2, up to Offset bytes from its start.
	Text   []byte `json:"text,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Cols   int    `json:"cols,omitempty"`
	Rows   int    `json:"rows,omitempty"`
}
