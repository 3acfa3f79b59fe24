// Package pty runs shells on pseudo terminals: it types commands and keys, keeps the screen with a terminal
// emulator, records the output, and detects the end of a command.
//
// It detects the end as terminals with shell integration do: the shell prints a mark, an escape sequence
// (OSC 133) with a secret of the session, before a command runs and before each prompt. Nothing is added to
// the typed text, so a trailing comment, a heredoc or an & cannot hide the end. Marks are removed from
// screen, output and recording.
package pty
