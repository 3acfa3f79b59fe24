// Package envd is a client of envd, the daemon in each sandbox of E2B: processes by the Connect protocol
// with JSON, and files by HTTP.
package envd

// Procedures of envd's process service, and the path of its files.
const (
	StartProcedure      = "/process.Process/Start"
	ConnectProcedure    = "/process.Process/Connect"
	ListProcedure       = "/process.Process/List"
	SendInputProcedure  = "/process.Process/SendInput"
	SendSignalProcedure = "/process.Process/SendSignal"
	CloseStdinProcedure = "/process.Process/CloseStdin"
	FilesPath           = "/files"
	HealthPath          = "/health"
)

// Headers of requests.
const (
	// the token of the sandbox
	TokenHeader     = "X-Access-Token"
	KeepaliveHeader = "Keepalive-Ping-Interval"

	// this and the next header route a request on addresses that serve many sandboxes
	SandboxHeader = "E2b-Sandbox-Id"
	PortHeader    = "E2b-Sandbox-Port"
)

// Port is envd's port in a sandbox.
const Port = 49983

// StartRequest starts a process.
type StartRequest struct {
	Process ProcessConfig `json:"process"`
	Tag     string        `json:"tag,omitempty"`
	Stdin   bool          `json:"stdin"`
}

// ProcessConfig is a command.
type ProcessConfig struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args,omitempty"`
	Envs map[string]string `json:"envs,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
}

// Selector identifies a process by its id. Tags are ambiguous if several processes have the same.
type Selector struct {
	PID int `json:"pid"`
}

// ConnectRequest asks for the later events of a process.
type ConnectRequest struct {
	Process Selector `json:"process"`
}

// EventMessage is one message of the stream of Start or Connect. One field of Event is set.
type EventMessage struct {
	Event Event `json:"event"`
}

// Event is an event of a process.
type Event struct {
	Start     *StartEvent `json:"start,omitempty"`
	Data      *DataEvent  `json:"data,omitempty"`
	End       *EndEvent   `json:"end,omitempty"`
	Keepalive *struct{}   `json:"keepalive,omitempty"`
}

// StartEvent is the first event.
type StartEvent struct {
	PID int `json:"pid"`
}

// DataEvent is output. One field is set.
type DataEvent struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
}

// EndEvent is the last event. A zero exit code is absent.
type EndEvent struct {
	ExitCode int    `json:"exitCode,omitempty"`
	Exited   bool   `json:"exited,omitempty"`
	Status   string `json:"status,omitempty"`
	Error    string `json:"error,omitempty"`
}

// SendInputRequest writes to the stdin of a process.
type SendInputRequest struct {
	Process Selector `json:"process"`
	Input   Input    `json:"input"`
}

// Input is what is written.
type Input struct {
	Stdin []byte `json:"stdin,omitempty"`
}

// SendSignalRequest sends SignalKill or SignalTerm to a process, not to its children.
type SendSignalRequest struct {
	Process Selector `json:"process"`
	Signal  string   `json:"signal"`
}

// Signals that envd sends.
const (
	SignalKill = "SIGNAL_SIGKILL"
	SignalTerm = "SIGNAL_SIGTERM"
)

// Empty is an answer without content.
type Empty struct{}

// ListResponse has the running processes.
type ListResponse struct {
	Processes []ProcessInfo `json:"processes,omitempty"`
}

// ProcessInfo is one of them.
type ProcessInfo struct {
	Config ProcessConfig `json:"config"`
	PID    int           `json:"pid"`
	Tag    string        `json:"tag,omitempty"`
}
