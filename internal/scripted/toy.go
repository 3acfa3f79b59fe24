package scripted

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// End is the token that ends a turn, the only special one.
	End = 1
	// Bytes is the first id of single bytes.
	Bytes = 16
	// MaxLength is the length of the model's context, in tokens.
	MaxLength = 131072

	// first id of two letters
	pairs = 512
)

// toyMessage is a message of a conversation.
type toyMessage struct{ Role, Content string }

// roles lists the roles of the template.
func roles() []string { return []string{"system", "user", "assistant", "tool"} }

// merges lists pieces of several characters by id, from End+1 on; longer ones first.
func merges() []string {
	var all []string
	for _, role := range roles() {
		all = append(all, "\n\n"+role+":\n")
	}

	return append(all, ":\n\n", "\n\n", ":\n")
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// encodeTokens appends the ids of text, in the vocabulary of the toy tokenizer.
//
// Its ids can be decoded, and its merges cross the borders of messages: tokenizing messages separately, or tokenizing a
// reply again, gives other ids than the template, and readPrompt refuses them.
func encodeTokens(ids []int32, text string) []int32 {
	known := merges()
	for i := 0; i < len(text); {
		n := slices.IndexFunc(known, func(m string) bool { return text[i] == m[0] && strings.HasPrefix(text[i:], m) })
		switch {
		case n >= 0:
			ids = append(ids, int32(End+1+n))
			i += len(known[n])
		case i+1 < len(text) && isLetter(text[i]) && isLetter(text[i+1]):
			ids = append(ids, pairs+int32(text[i])<<8+int32(text[i+1]))
			i += 2
		default:
			ids = append(ids, Bytes+int32(text[i]))
			i++
		}
	}

	return ids
}

// tokenText returns the text of one token other than End.
func tokenText(id int32) (string, error) {
	known := merges()
	switch {
	case id > End && int(id) <= End+len(known):
		return known[id-End-1], nil
	case id >= Bytes && id < Bytes+256:
		return string([]byte{byte(id - Bytes)}), nil
	case id >= pairs && id < pairs+1<<16:
		return string([]byte{byte((id - pairs) >> 8), byte(id - pairs)}), nil
	default:
		return "", fmt.Errorf("prompt: no token has id %d", id)
	}
}

func decodeTokens(ids []int32) (string, error) {
	var text strings.Builder

	for _, id := range ids {
		piece, err := tokenText(id)
		if err != nil {
			return "", err
		}

		text.WriteString(piece)
	}

	return text.String(), nil
}

// promptTokens applies the template: each message with its role before it and End behind it, then the
// beginning of the reply.
func promptTokens(messages []toyMessage) []int32 {
	var ids []int32

	text := ""
	for _, m := range messages {
		ids = append(encodeTokens(ids, text+m.Role+":\n"+m.Content), End)
		text = "\n\n"
	}

	return encodeTokens(ids, text+"assistant:\n")
}

// readPrompt returns the messages of a prompt. It refuses a prompt that the template cannot have made from
// sampled replies: with a doubled End, a message without a role, or a message that was tokenised
// separately.
func readPrompt(prompt []int32) ([]toyMessage, error) {
	var messages []toyMessage

	for n := 0; ; n++ {
		end := slices.Index(prompt, End)

		part := prompt
		if end >= 0 {
			part = prompt[:end]
		}

		m, err := readMessage(part, n > 0)
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

func readMessage(ids []int32, later bool) (toyMessage, error) {
	text, err := decodeTokens(ids)
	if err != nil {
		return toyMessage{}, err
	}

	lead := ""
	if later {
		lead = "\n\n"
	}

	for _, role := range roles() {
		header := lead + role + ":\n"
		if !strings.HasPrefix(text, header) {
			continue
		}

		want := encodeTokens(nil, text)
		// its text was sampled, in tokens of any form
		if role == "assistant" {
			want = encodeTokens(nil, header)
			ids = ids[:min(len(want), len(ids))]
		}

		if !slices.Equal(ids, want) {
			return toyMessage{}, fmt.Errorf("the tokens of %q are not those that the tokenizer makes", role)
		}

		return toyMessage{Role: role, Content: text[len(header):]}, nil
	}

	return toyMessage{}, errors.New("it has no role")
}
