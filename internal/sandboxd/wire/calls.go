package wire

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
