package pty

import (
	"fmt"
	"strings"
)

// names maps tmux's names of keys to what an xterm sends.
func names() map[string]string {
	m := map[string]string{
		"Enter":    "\r",
		"Tab":      "\t",
		"BTab":     "\x1b[Z",
		"Space":    " ",
		"Escape":   "\x1b",
		"BSpace":   "\x7f",
		"Up":       "\x1b[A",
		"Down":     "\x1b[B",
		"Right":    "\x1b[C",
		"Left":     "\x1b[D",
		"Home":     "\x1b[H",
		"End":      "\x1b[F",
		"IC":       "\x1b[2~",
		"Insert":   "\x1b[2~",
		"DC":       "\x1b[3~",
		"Delete":   "\x1b[3~",
		"PPage":    "\x1b[5~",
		"PageUp":   "\x1b[5~",
		"PgUp":     "\x1b[5~",
		"NPage":    "\x1b[6~",
		"PageDown": "\x1b[6~",
		"PgDn":     "\x1b[6~",
		"F1":       "\x1bOP",
		"F2":       "\x1bOQ",
		"F3":       "\x1bOR",
		"F4":       "\x1bOS",
	}
	for i, code := range []int{15, 17, 18, 19, 20, 21, 23, 24} {
		m[fmt.Sprintf("F%d", i+5)] = fmt.Sprintf("\x1b[%d~", code)
	}

	return m
}

// encode returns what the keys send. A key without a name in tmux is text. application: the program has
// asked for the application forms of the cursor keys.
func encode(keys []string, application bool) string {
	var out strings.Builder

	known := names()
	for _, key := range keys {
		out.WriteString(one(key, known, application))
	}

	return out.String()
}

func one(key string, known map[string]string, application bool) string {
	if seq, ok := known[key]; ok {
		if application && len(seq) == 3 && strings.ContainsAny(seq[2:], "ABCDHF") {
			return "\x1bO" + seq[2:]
		}

		return seq
	}

	switch {
	case len(key) == 2 && key[0] == '^':
		return control(key, key[1])
	case strings.HasPrefix(key, "C-") && len(key) == 3:
		return control(key, key[2])
	case key == "C-Space":
		return "\x00"
	case strings.HasPrefix(key, "M-") && len(key) > 2:
		return "\x1b" + one(key[2:], known, application)
	default:
		return key
	}
}

// control returns the control character of c, or the key itself if there is none.
func control(key string, c byte) string {
	switch {
	case c >= 'a' && c <= 'z':
		return string(rune(c - 'a' + 1))
	case c >= '@' && c <= '_':
		return string(rune(c - '@'))
	case c == '?':
		return "\x7f"
	default:
		return key
	}
}
