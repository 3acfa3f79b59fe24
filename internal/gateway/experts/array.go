package experts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// array is an array of rows, layers and experts.
type array struct {
	rows, layers, topK int

	// size of a number, in bytes
	size int
	data []byte
}

// arrayMark is the beginning of a file of numpy.lib.format.
const arrayMark = "\x93NUMPY"

func isArray(raw []byte) bool { return bytes.HasPrefix(raw, []byte(arrayMark)) }

// readArray reads a file of numpy.lib.format. Its data alias raw.
func readArray(raw []byte) (array, error) {
	header, data, err := splitArray(raw)
	if err != nil {
		return array{}, err
	}

	found := headerForm().FindSubmatch(header)
	if found == nil {
		return array{}, errors.New("the array is not one of rows, layers and experts as unsigned or 32-bit numbers")
	}

	a := array{size: int(found[1][1] - '0'), data: data}
	for i, to := range []*int{&a.rows, &a.layers, &a.topK} {
		// the form bounds the digits
		*to, _ = strconv.Atoi(string(found[i+2]))
	}

	switch width := a.layers * a.topK; {
	case width == 0 || width > maxWidth:
		return array{}, errWidth(width)
	case a.rows*width*a.size != len(data):
		return array{}, fmt.Errorf("an array of %d rows of %d experts has %d bytes", a.rows, width, len(data))
	}

	return a, nil
}

// headerForm returns the form of the headers that numpy writes for such an array, in its own order of the members.
func headerForm() *regexp.Regexp {
	return regexp.MustCompile(`^\{'descr': '[|<](u1|u2|i4)', 'fortran_order': False, 'shape': ` +
		`\((\d{1,9}), (\d{1,5}), (\d{1,5})\), *\} *\n?$`)
}

// splitArray returns the header and the data of a file.
func splitArray(raw []byte) (header, data []byte, err error) {
	const version = len(arrayMark)

	short := errors.New("the array is cut off")
	if len(raw) < version+4 {
		return nil, nil, short
	}

	at, length := version+4, int(binary.LittleEndian.Uint16(raw[version+2:]))

	if raw[version] > 1 {
		if at = version + 6; len(raw) < at {
			return nil, nil, short
		}

		length = int(binary.LittleEndian.Uint32(raw[version+2:]))
	}

	if length > len(raw)-at {
		return nil, nil, short
	}

	return raw[at : at+length], raw[at+length:], nil
}
