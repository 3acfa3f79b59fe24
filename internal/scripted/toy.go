package scripted

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The toy tokenizer serves what is prompted with token ids (/tokenize, /v1/completions). Unlike the ids of chat completions its ids can be
// decoded, so that the server stays stateless, and its merges cross the borders of messages: who tokenises messages on their own, or tokenises
// a reply again, gets other ids than the template does, and is refused.
const (
	toyEnd   = 1   // turnEnd, the one special token
	toyBytes = 16  // first id of single bytes
	toyPairs = 512 // first id of two letters
	toyMax   = 131072
)

// toyRoles are those that the template knows.
func toyRoles() []string { return []string{"system", "user", "assistant", "tool"} }

// toyMerges are pieces of several characters by id, from toyEnd+1 on; longer ones first.
func toyMerges() []string {
	var all []string
	for _, role := range toyRoles() {
		all = append(all, "\n\n"+role+":\n")
	}
	return append(all, ":\n\n", "\n\n", ":\n")
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// toyEncode is the ids of text that has no turnEnd in it.
func toyEncode(ids []int32, text string) []int32 {
	merges := toyMerges()
	for i := 0; i < len(text); {
		n := slices.IndexFunc(merges, func(m string) bool { return text[i] == m[0] && strings.HasPrefix(text[i:], m) })
		switch {
		case n >= 0:
			ids = append(ids, int32(toyEnd+1+n))
			i += len(merges[n])
		case i+1 < len(text) && isLetter(text[i]) && isLetter(text[i+1]):
			ids = append(ids, toyPairs+int32(text[i])<<8+int32(text[i+1]))
			i += 2
		default:
			ids = append(ids, toyBytes+int32(text[i]))
			i++
		}
	}
	return ids
}

// toyText is the text of one token other than toyEnd.
func toyText(id int32) (string, error) {
	merges := toyMerges()
	switch {
	case id > toyEnd && int(id) <= toyEnd+len(merges):
		return merges[id-toyEnd-1], nil
	case id >= toyBytes && id < toyBytes+256:
		return string([]byte{byte(id - toyBytes)}), nil
	case id >= toyPairs && id < toyPairs+1<<16:
		return string([]byte{byte((id - toyPairs) >> 8), byte(id - toyPairs)}), nil
	default:
		return "", fmt.Errorf("prompt: no token has id %d", id)
	}
}

func toyDecode(ids []int32) (string, error) {
	var text strings.Builder
	for _, id := range ids {
		piece, err := toyText(id)
		if err != nil {
			return "", err
		}
		text.WriteString(piece)
	}
	return text.String(), nil
}

// toyPrompt is the template: each message with its role before it and turnEnd behind it, then the beginning of the reply.
func toyPrompt(messages []message) []int32 {
	var ids []int32
	text := ""
	for _, m := range messages {
		ids = append(toyEncode(ids, text+m.Role+":\n"+string(m.Content)), toyEnd)
		text = "\n\n"
	}
	return toyEncode(ids, text+"assistant:\n")
}

// toyMessages reads a prompt back. It refuses one that the template cannot have made around what was sampled: a doubled turnEnd, a message
// without a role, or one that was tokenised on its own.
func toyMessages(prompt []int32) ([]message, error) {
	var messages []message
	for n := 0; ; n++ {
		end := slices.Index(prompt, toyEnd)
		part := prompt
		if end >= 0 {
			part = prompt[:end]
		}
		m, err := toyMessage(part, n > 0)
		if err != nil {
			return nil, fmt.Errorf("prompt, message %d: %w", n+1, err)
		}
		if end < 0 {
			if m.Role != "assistant" || m.Content != "" {
				return nil, errors.New("prompt: it does not end where a reply begins")
			}
			return messages, nil
		}
		messages, prompt = append(messages, m), prompt[end+1:]
	}
}

func toyMessage(ids []int32, later bool) (message, error) {
	text, err := toyDecode(ids)
	if err != nil {
		return message{}, err
	}
	lead := ""
	if later {
		lead = "\n\n"
	}
	for _, role := range toyRoles() {
		header := lead + role + ":\n"
		if !strings.HasPrefix(text, header) {
			continue
		}
		want := toyEncode(nil, text)
		if role == "assistant" { // its text was sampled, in tokens of any form
			want = toyEncode(nil, header)
			ids = ids[:min(len(want), len(ids))]
		}
		if !slices.Equal(ids, want) {
			return message{}, fmt.Errorf("the tokens of %q are not those that the tokenizer makes", role)
		}
		return message{Role: role, Content: content(text[len(header):])}, nil
	}
	return message{}, errors.New("it has no role")
}

// toySample is text as the model samples it: in tokens that the tokenizer would not make of it, and the end of the turn.
func toySample(text string) []token {
	var tokens []token
	for _, piece := range pieces(text) {
		for _, id := range append([]int32{toyBytes + int32(piece[0])}, toyEncode(nil, piece[1:])...) {
			s, _ := toyText(id) // just encoded
			tokens = append(tokens, newToken(s, id, len(tokens)))
		}
	}
	return append(tokens, newToken("", toyEnd, len(tokens)))
}
