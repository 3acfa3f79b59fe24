package scripted

import (
	"strconv"
	"unicode/utf8"
)

// The template's own tokens, as Qwen's chat template has them.
const (
	turnStart  = "<|im_start|>"
	turnEnd    = "<|im_end|>"
	thinkStart = "<think>\n"
	thinkEnd   = "\n</think>\n\n"
	callStart  = "<tool_call>\n"
	callEnd    = "\n</tool_call>"
)

// idBase keeps made-up ids above the low ids that vocabularies reserve; idRange keeps them within a usual vocabulary.
const (
	idBase  = 1000
	idRange = 150_000
)

// tokenID is the id of one piece: its hash, so that equal pieces have equal ids.
func tokenID(piece string) int32 {
	h := uint32(2166136261)
	for i := 0; i < len(piece); i++ {
		h = (h ^ uint32(piece[i])) * 16777619
	}

	return int32(idBase + h%idRange)
}

// logprob makes up a value in [-4, 0) that a decimal number holds exactly, so that it survives any JSON round trip.
func logprob(id int32, position int) float64 {
	h := (uint32(id) + uint32(position)*0x85ebca6b) * 2654435761 >> 20
	return -float64(h+1) / 1024
}

// nextPiece returns the length of the first piece of a non-empty s: a word with the space before it, up to
// three digits, a run of blanks, or one other character. Pieces never split a character.
func nextPiece(s string) int {
	// bytes of one word
	const longest = 16

	i := 0
	if s[0] == ' ' && len(s) > 1 && isWord(s[1]) {
		i = 1
	}

	switch {
	case isWord(s[i]):
		for i < len(s) && isWord(s[i]) && (i < longest || !utf8.RuneStart(s[i])) {
			i++
		}
	case isDigit(s[0]):
		for i < len(s) && i < 3 && isDigit(s[i]) {
			i++
		}
	case isBlank(s[0]):
		for i < len(s) && isBlank(s[i]) {
			i++
		}
	default:
		i = 1
	}

	return i
}

func isWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= utf8.RuneSelf
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// appendIDs appends the ids of text's pieces.
func appendIDs(ids []int32, text string) []int32 {
	for len(text) > 0 {
		n := nextPiece(text)
		ids = append(ids, tokenID(text[:n]))
		text = text[n:]
	}

	return ids
}

// token is one token of a reply, with its encoded log probability.
type token struct {
	piece   string
	id      int32
	logprob float64

	// the logprobs.content entry up to and without top_logprobs
	entry []byte
}

func newToken(piece string, id int32, position int) token {
	t := token{piece: piece, id: id, logprob: logprob(id, position)}
	t.entry = appendEntry(nil, piece, t.logprob)

	return t
}

func appendEntry(b []byte, piece string, lp float64) []byte {
	b = append(b, `{"token":`...)
	b = appendString(b, piece)
	b = append(b, `,"logprob":`...)
	b = strconv.AppendFloat(b, lp, 'f', -1, 64)
	b = append(b, `,"bytes":[`...)

	for i := 0; i < len(piece); i++ {
		if i > 0 {
			b = append(b, ',')
		}

		b = strconv.AppendUint(b, uint64(piece[i]), 10)
	}

	return append(b, ']')
}
