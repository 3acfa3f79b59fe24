package gateway

import "strings"

// Bounds of an ID, in bytes: of what stands before the first dot, and of each of at most two parts behind one.
const (
	maxIDHead  = 64
	maxIDTail  = 32
	maxIDTails = 2
)

// ValidID keeps IDs that are no path of their own: each is the name of a folder. It is letters, digits, "_" and "-", in parts with
// dots between, and begins with a letter or digit.
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

// validPart says whether a part has at least one character and at most so many, all of them plain.
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
