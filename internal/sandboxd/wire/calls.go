package wire

// Exec is a command to run once under a call id. The answer comes at its end, or after the wait of the request.
type Exec struct {
	Process
}

// ExecResult is the result of an Exec. While Running it has no output yet.
type ExecResult struct {
	Status
	Stdout Output `json:"stdout,omitzero"`
	Stderr Output `json:"stderr,omitzero"`
}

// Output is the kept part of a stream: its first and last bytes, and the number of bytes dropped between them.
type Output struct {
	Head    []byte `json:"head,omitempty"`
	Tail    []byte `json:"tail,omitempty"`
	Omitted int64  `json:"omitted,omitempty"`
}

// Len is the number of bytes kept.
func (o Output) Len() int { return len(o.Head) + len(o.Tail) }

// Self is the path of sandboxd's program for its processes. FileTool is its argument for a file tool: the
// next argument names the tool, stdin has its arguments as a JSON object, and stdout gets a FileAnswer.
const (
	Self     = "/proc/self/exe"
	FileTool = "file"
)

// FileAnswer is the answer of a file tool.
type FileAnswer struct {
	Content string `json:"content"`
	// Error describes what was wrong with the arguments or the file.
	Error string `json:"error,omitempty"`
	// Size is the size of a file in bytes, or the number of a list's entries.
	Size int64 `json:"size"`
	// Path is the absolute path.
	Path string `json:"path,omitempty"`
}

// Actions of a PTYCall.
const (
	// starts the shell, or sets the size of its screen if it runs
	PTYStart = "start"

	// runs Command in the shell and waits for its end
	PTYRun = "run"

	// types Keys
	PTYKeys = "keys"

	// returns the screen
	PTYCapture = "capture"

	// returns new lines of the recording
	PTYStream = "stream"

	// ends the shell and its descendants
	PTYStop = "stop"
)

// PTYCall is a call to a shell on a pseudo terminal. The first call that needs the shell starts it.
type PTYCall struct {
	Action string `json:"action"`
	// Shell is the shell's process; its Argv must be bash.
	Shell Process `json:"shell"`
	// Cols and Rows are the size of the screen; 0: 120 and 40.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
	// Command is the command of PTYRun, for at most TimeoutMillis. It is killed then; the shell stays.
	Command       string `json:"command,omitempty"`
	TimeoutMillis int64  `json:"timeout_ms,omitempty"`
	// Keys are typed by PTYKeys: tmux's names of keys (Enter, C-c, Up), or text. The answer comes after
	// MinWaitMillis and, with Block, when the shell is at its prompt again, at most after TimeoutMillis.
	Keys          []string `json:"keys,omitempty"`
	Block         bool     `json:"block,omitempty"`
	MinWaitMillis int64    `json:"min_wait_ms,omitempty"`
	// Entire makes PTYCapture return the output since the start, within bounds, instead of the screen.
	Entire bool `json:"entire,omitempty"`
	// MaxBytes bounds the lines of a PTYStream; Reset starts from the oldest kept line.
	MaxBytes int  `json:"max_bytes,omitempty"`
	Reset    bool `json:"reset,omitempty"`
}

// PTYAnswer is the answer to a PTYCall.
type PTYAnswer struct {
	// the call has not ended within the wait of the request
	Running bool `json:"running,omitempty"`
	// Error describes what was wrong with the call, such as an incomplete command.
	Error string `json:"error,omitempty"`
	// Output is the output of PTYRun's command, with its control sequences.
	Output Output `json:"output,omitzero"`

	// exit code of the command, or of the shell if it Ended
	ExitCode int  `json:"exit_code"`
	TimedOut bool `json:"timed_out,omitempty"`

	// the shell has ended; the next call starts another
	Ended bool `json:"ended,omitempty"`
	// Text is the screen, or the lines of the recording as asciicast v2, up to Offset bytes from its start.
	Text   []byte `json:"text,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Cols   int    `json:"cols,omitempty"`
	Rows   int    `json:"rows,omitempty"`
}
