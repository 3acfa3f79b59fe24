package pty

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// keepOutput is the size of each kept end of a command's output, in bytes.
const keepOutput = 32 << 10

// Time limits of the shell itself.
const (
	// bounds the wait for the first prompt
	promptTime = 20 * time.Second

	// bounds the wait for a prompt after an interrupt
	interruptTime = 2 * time.Second
)

// wait waits until done returns true; false: the time is over, the shell has ended, or ctx has. mu is held.
func (s *session) wait(ctx context.Context, atMost time.Duration, done func() bool) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()

	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()

		if ok {
			return true
		}

		select {
		case <-changed:
		case <-s.process.Done():
			s.mu.Lock()
			defer s.mu.Unlock()

			return done()
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// run runs one command at the prompt.
func (s *session) run(ctx context.Context, table *process.Table, command string, atMost time.Duration) wire.PTYAnswer {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return wire.PTYAnswer{Error: "the call was deleted"}
	}

	if !s.wait(ctx, promptTime, func() bool { return s.idle }) {
		return wire.PTYAnswer{
			Error: "a program is running in the shell: end it, or stop the shell",
			Ended: s.shellEnded(),
		}
	}

	s.mu.Lock()
	s.idle, s.wanted, s.current, s.output = false, true, nil, nil
	prompts, unread := s.prompts, s.unread
	s.mu.Unlock()

	deadline := time.Now().Add(atMost)

	var answer wire.PTYAnswer
	// As pasted text: the shell takes all lines as one input, and no character as a key.
	err := s.write("\x1b[200~"+command+"\x1b[201~\r", atMost)

	ended := err == nil &&
		s.wait(ctx, time.Until(deadline), func() bool { return s.prompts > prompts || s.unread > unread })
	switch {
	case s.shellEnded():
		answer.Ended, answer.ExitCode = true, s.process.Status().ExitCode
		<-s.closed
	case !ended:
		answer.TimedOut, answer.ExitCode = true, -1
		answer.Ended = !s.interrupt(ctx, table, prompts)
	case s.count(&s.unread) > unread:
		s.interrupt(ctx, table, prompts)

		answer.Error, answer.ExitCode = "the command is not complete: a quote, a bracket or a heredoc is not closed", 2

		return answer
	default:
		answer.ExitCode = s.count(&s.exitCode)
	}

	answer.Output = s.takeOutput()

	return answer
}

func (s *session) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return *n
}

// takeOutput returns the output of the command.
func (s *session) takeOutput() wire.Output {
	s.mu.Lock()
	defer s.mu.Unlock()

	output := s.output

	s.current, s.output, s.wanted = nil, nil, false
	if output == nil {
		// an empty line or a comment: nothing ran
		return wire.Output{}
	}

	head, tail, omitted := output.Ends()

	return wire.Output{Head: head, Tail: tail, Omitted: omitted}
}

// interrupt returns the shell to its prompt: by C-c, then by killing the program in the foreground. If both
// fail, it kills the shell and returns false.
func (s *session) interrupt(ctx context.Context, table *process.Table, prompts int) bool {
	back := func() bool { return s.prompts > prompts }
	if s.write("\x03", writeTime) == nil && s.wait(ctx, interruptTime, back) {
		return true
	}

	if group := s.foreground(); group > 1 && group != s.process.Status().PID {
		_ = unix.Kill(-group, unix.SIGKILL)

		if s.wait(ctx, interruptTime, back) {
			return true
		}
	}

	_ = table.Kill(s.process)

	return false
}

// foreground returns the terminal's foreground process group; 0: unknown.
func (s *session) foreground() (group int) {
	if err := s.control(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	}); err != nil {
		return 0
	}

	return group
}

// forbidden are the control characters on which the terminal itself acts.
const forbidden = "\x00\x03\x04\x11\x13\x1a\x1c"

func checkCommand(command string) error {
	if strings.ContainsAny(command, forbidden) || strings.Contains(command, "\x1b[201~") {
		return fmt.Errorf("the command contains control characters: use the tool tmux to type keys")
	}

	return nil
}
