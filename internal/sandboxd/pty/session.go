package pty

import (
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	creack "github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// writeTime bounds a write to a terminal whose program does not read.
const writeTime = 2 * time.Second

// session is one shell on its terminal.
type session struct {
	process *process.Process
	master  *os.File

	// held by the running command
	turn chan struct{}

	// closed when all output has been read
	closed chan struct{}

	mu sync.Mutex

	// closed at the next change of what follows
	changed chan struct{}
	screen  *screen

	// not sent yet
	replies replies
	rest    []byte
	marks   *marks

	// the whole output
	all *process.Output

	// output of the running command; nil: none runs
	current *process.Output

	// output of the latest PTYRun's command; nil: none
	output *process.Output

	// keep the output of the next command
	wanted    bool
	recording *recording

	// number of shown prompts
	prompts int

	// number of the latest prompt; "": a command has ended since
	prompt string

	// number of prompts for the rest of a command
	unread int

	// the shell is at its prompt
	idle bool

	// exit code of the last command
	exitCode int
	cols     int
	rows     int
}

// open starts a shell on a new terminal.
func open(table *process.Table, name string, shell wire.Process, cols, rows int) (*session, error) {
	user, err := table.Users.Find(shell.User)
	if err != nil {
		return nil, err
	}

	var tty *os.File

	s := &session{
		turn: make(chan struct{}, 1), closed: make(chan struct{}), changed: make(chan struct{}), cols: cols, rows: rows,
		all: process.NewOutput(200_000), recording: newRecording(cols, rows, time.Now()),
	}
	// The terminal belongs to the user who opens it.
	if runErr := table.Users.Run(user, func() { s.master, tty, err = openTerminal() }); runErr != nil || err != nil {
		return nil, errors.Join(runErr, err)
	}

	defer tty.Close()

	secret := rand.Text()
	s.marks = newMarks(secret)
	s.screen = newScreen(cols, rows, &s.replies)
	shell.Env = maps.Clone(shell.Env)
	maps.Copy(shell.Env, environment(secret))

	shell.Env["TERM"] = "xterm-256color"
	if err = s.setSize(); err == nil {
		s.process, err = table.StartCall(name, shell, tty)
	}

	if err != nil {
		_ = s.master.Close()
		return nil, err
	}
	// ends with the terminal
	go s.read()

	return s, nil
}

// openTerminal opens both ends of a terminal. Our end does not block, so that a program that does not read
// cannot hold a write for good.
func openTerminal() (master, tty *os.File, err error) {
	blocking, tty, err := creack.Open()
	if err != nil {
		return nil, nil, err
	}
	defer blocking.Close()

	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}

	if err != nil {
		_ = tty.Close()
		return nil, nil, err
	}

	return os.NewFile(uintptr(fd), "terminal"), tty, nil
}

// control runs f on the descriptor of the terminal. Fd would make it blocking.
func (s *session) control(f func(fd int) error) error {
	raw, err := s.master.SyscallConn()
	if err != nil {
		return err
	}

	var failed error

	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}

	return failed
}

func (s *session) setSize() error {
	return s.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(s.cols), Row: uint16(s.rows)})
	})
}

// maxReplies bounds the terminal's replies to one piece of what a program prints, in bytes.
const maxReplies = 4 << 10

// replies are the terminal's unsent replies, such as the position of the cursor.
type replies []byte

// Write implements io.Writer.
func (r *replies) Write(p []byte) (int, error) {
	if len(*r) < maxReplies {
		*r = append(*r, p...)
	}

	return len(p), nil
}

// reply sends the replies. It drops them if the program does not read them. mu is not held, so that such a
// program blocks nothing else.
func (s *session) reply(text replies) {
	if len(text) > 0 {
		_ = s.write(string(text), 100*time.Millisecond)
	}
}

// read reads the output until every process has closed the terminal, or the shell has ended and the terminal is silent.
func (s *session) read() {
	go func() {
		<-s.process.Done()
		// background processes may continue to print
		_ = s.master.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	}()

	buffer := make([]byte, 16<<10)
	for {
		n, err := s.master.Read(buffer)
		s.mu.Lock()
		s.marks.feed(buffer[:n], s.print, s.mark)
		unsent := s.replies
		s.replies = nil
		s.mu.Unlock()
		s.reply(unsent)

		if err != nil {
			break
		}
	}

	close(s.closed)
	<-s.process.Done()
	s.mu.Lock()
	s.idle = false
	s.change()
	s.mu.Unlock()
	_ = s.master.Close()
}

// change wakes all waiting goroutines. mu is held.
func (s *session) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// print processes text of the terminal; an incomplete character waits for its rest.
func (s *session) print(text []byte) {
	if len(text) == 0 {
		return
	}

	_, _ = s.all.Write(text)
	if s.current != nil {
		_, _ = s.current.Write(text)
	}

	text = append(s.rest, text...)

	end := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				end = at
			}

			break
		}
	}

	whole := strings.ToValidUTF8(string(text[:end]), "\uFFFD")
	s.rest = append([]byte(nil), text[end:]...)
	s.recording.output(whole)
	s.screen.write(whole)
}

// mark processes a mark of the shell. Only marks end a wait; text does not.
func (s *session) mark(kind byte, value string) {
	defer s.change()

	switch kind {
	case markRun:
		if s.wanted && s.current == nil {
			s.current = process.NewOutput(keepOutput)
			s.output = s.current
		}
	case markDone:
		s.endCommand(value)
		s.prompt = ""
	case markReady:
		exitCode, prompt, _ := strings.Cut(value, ";")
		if prompt == s.prompt {
			// redrawn
			return
		}

		s.endCommand(exitCode)
		s.prompts++
		s.prompt, s.idle = prompt, true
	case markUnread:
		s.unread++
	}
}

// endCommand processes the end of a command. Each end has two marks, and a command may have removed the exit code
// from one of them.
func (s *session) endCommand(exitCode string) {
	if n, err := strconv.Atoi(exitCode); err == nil {
		s.exitCode = n
	}

	s.current, s.wanted = nil, false
}

// write types text.
func (s *session) write(text string, atMost time.Duration) error {
	_ = s.master.SetWriteDeadline(time.Now().Add(atMost))
	_, err := s.master.WriteString(text)

	return err
}

// shellEnded reports whether the shell has ended.
func (s *session) shellEnded() bool { return !s.process.Running() }
