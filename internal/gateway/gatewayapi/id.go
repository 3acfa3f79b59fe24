package gatewayapi

import "strings"

// Bounds of an ID, in bytes: of the part before the first dot, and of each of at most two further parts.
const (
	maxIDHead  = 64
	maxIDTail  = 32
	maxIDTails = 2
)

// ValidID reports whether an ID is safe as the name of a folder: parts of letters, digits, "_" and "-",
// with dots between them, beginning with a letter or digit.
func ValidID(id string) bool {
	head, tails, dotted := strings.Cut(id, ".")
	if !validPart(head, maxIDHead) || head[0] == '_' || head[0] == '-' {
		return false
	}

	for n := 0; dotted; n++ {
		var tail string

		tail, tails, dotted = strings.Cut(tails, ".")
		if n == maxIDTails || !validPart(tail, maxIDTail) {
			return false
		}
	}

	return true
}

// validPart reports whether a part has 1 to most characters, all of them allowed.
func validPart(part string, most int) bool {
	for i := range len(part) {
		switch ch := part[i]; {
		case ch >= 'a' && ch <= 'z', ch >= 'A' && ch <= 'Z', ch >= '0' && ch <= '9', ch == '_', ch == '-':
		default:
			return false
		}
	}

	return len(part) > 0 && len(part) <= most
}
