package formats

import (
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	// and the version
	magic = "\x93NUMPY\x01\x00"
	// alignment: numpy requires that the values begin at a multiple of it, so that they can be mapped into memory.
	alignment = 64
)

// header returns the bytes before the values: the magic, the header's length, and a Python literal that
// ends in a line feed.
func header(dtype string, n int) []byte {
	says := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", dtype, n)
	unpadded := len(magic) + 2 + len(says) + 1
	says += strings.Repeat(" ", (alignment-unpadded%alignment)%alignment) + "\n"

	return append(binary.LittleEndian.AppendUint16([]byte(magic), uint16(len(says))), says...)
}

// dtype returns numpy's name of a value's type.
func dtype(v any) string {
	switch v.(type) {
	case bool:
		return "|b1"
	case int32:
		return "<i4"
	case int64:
		return "<i8"
	default:
		return "<f8"
	}
}
