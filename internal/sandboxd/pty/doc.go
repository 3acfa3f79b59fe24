// Package pty runs shells on pseudo terminals: it types commands and keys, keeps the screen with a terminal emulator, records what is
// printed, and knows when a command has ended.
//
// The end of a command is seen as terminals with shell integration see it: the shell itself prints a mark, an escape sequence
// (OSC 133) with a secret of the session, before a command runs and before each prompt. Nothing is added to what is typed, so a
// trailing comment, a heredoc or an & cannot hide the end. Marks are removed from screen, output and recording.
package pty
