package pty

import (
	"bytes"
	"maps"
	"slices"
)

// Kinds of marks.
const (
	// a command is about to run
	markRun = 'C'

	// the commands have ended; the exit code follows
	markDone = 'D'

	// the prompt is shown; followed by the exit code and the prompt's number
	markReady = 'B'

	// the shell waits for the rest of an incomplete command
	markUnread = 'E'
)

// bytes of a mark after its prefix; with "promptvars" off bash prints the names of its variables
const maxMark = 48

// marks removes the marks from a stream.
type marks struct {
	prefix []byte

	// a possible beginning of a mark
	pending []byte
}

func newMarks(secret string) *marks { return &marks{prefix: []byte("\x1b]133;" + secret + ";")} }

// environment makes bash print the marks. The variables are not exported, so programs do not inherit them.
// A command may change the prompts, for instance by sourcing a .bashrc: PROMPT_COMMAND restores the marks,
// and the first prompt also has the exit code, in case PROMPT_COMMAND is replaced. The number of a prompt
// distinguishes a new one from one that readline redraws while a command is typed, as in locales without
// multibyte characters.
func environment(secret string) map[string]string {
	osc := `\e]133;` + secret + `;`
	prompts := map[string]string{
		"PS0": osc + `C\a`,
		"PS1": `\[` + osc + `B;$?;$((_prompts=${_prompts:-0}+1))\a\]`,
		"PS2": `\[` + osc + `E\a\]`,
	}

	command := `printf '\033]133;` + secret + `;D;%s\007' "$?"; `
	for _, name := range slices.Sorted(maps.Keys(prompts)) {
		command += `case ${` + name + `-} in *` + secret + `*) ;; *) ` + name + `='` + prompts[name] + `'"${` + name + `-}" ;; esac; `
	}

	command += `export -n PS0 PS1 PS2 PROMPT_COMMAND HISTFILE _prompts; bind 'set enable-bracketed-paste on' 2>/dev/null`
	prompts["PS1"] += `\$ `
	prompts["PS2"] += `> `
	prompts["PROMPT_COMMAND"], prompts["HISTFILE"] = command, "/dev/null"

	return prompts
}

// feed calls text for data without marks, and mark for each mark, in order.
func (m *marks) feed(data []byte, text func([]byte), mark func(kind byte, value string)) {
	data = append(m.pending, data...)

	m.pending = nil
	for {
		at := bytes.Index(data, m.prefix)
		if at < 0 {
			keep := overlap(data, m.prefix)
			text(data[:len(data)-keep])
			m.pending = bytes.Clone(data[len(data)-keep:])

			return
		}

		text(data[:at])
		rest := data[at+len(m.prefix):]

		end := bytes.IndexByte(rest[:min(len(rest), maxMark)], '\a')
		switch {
		case end > 0 && rest[0] != ';':
			kind, value, _ := bytes.Cut(rest[:end], []byte(";"))
			mark(kind[0], string(value))

			data = rest[end+1:]
		case end < 0 && len(rest) < maxMark:
			m.pending = bytes.Clone(data[at:])
			return
		default: // no mark
			text(m.prefix)

			data = rest
		}
	}
}

// overlap returns the length of the longest end of data that is a beginning of prefix.
func overlap(data, prefix []byte) int {
	for n := min(len(data), len(prefix)-1); n > 0; n-- {
		if bytes.HasPrefix(prefix, data[len(data)-n:]) {
			return n
		}
	}

	return 0
}
