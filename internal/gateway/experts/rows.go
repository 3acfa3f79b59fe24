package experts

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxWidth bounds the experts of a token.
const maxWidth = 1 << 16

// Rows are the rows of consecutive tokens.
type Rows struct {
	// as in rollout.RoutedExperts
	Count, Width, Layers, TopK int
	Type                       rollout.ExpertType

	Data []byte
}

// From returns the rows from the n-th on, without a copy.
func (r Rows) From(n int) Rows {
	r.Data = r.Data[n*r.Width*r.Type.Size():]
	r.Count -= n

	return r
}

// Decode reads rows from base64. The numbers are stored in as few bytes as the largest needs. Plain numbers do not say
// how many make a row: width does, or if it is 0 the number of rows.
func Decode(text []byte, rows, width int) (Rows, error) {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))

	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		return Rows{}, errors.New("they are not base64")
	}

	raw = raw[:n]
	if !isArray(raw) {
		return plain(raw, rows, width)
	}

	a, err := readArray(raw)
	if err != nil {
		return Rows{}, err
	}

	if width > 0 && width != a.layers*a.topK {
		return Rows{}, fmt.Errorf("a row has %d experts, and one of the turns before has %d", a.layers*a.topK, width)
	}

	return narrow(Rows{Count: a.rows, Width: a.layers * a.topK, Layers: a.layers, TopK: a.topK, Data: a.data}, a.size)
}

// plain reads numbers of 32 bits.
func plain(raw []byte, rows, width int) (Rows, error) {
	const size = 4

	switch all := len(raw) / size; {
	case len(raw) == 0 || len(raw)%size != 0:
		return Rows{}, fmt.Errorf("%d bytes are no list of numbers", len(raw))
	case width == 0 && (rows <= 0 || all%rows != 0):
		return Rows{}, fmt.Errorf("%d experts are not those of %d tokens", all, rows)
	case width == 0:
		width = all / rows
	case all%width != 0:
		return Rows{}, fmt.Errorf("%d experts are no rows of %d", all, width)
	}

	if width == 0 || width > maxWidth {
		return Rows{}, errWidth(width)
	}

	return narrow(Rows{Count: len(raw) / size / width, Width: width, Data: raw}, size)
}

func errWidth(width int) error {
	return fmt.Errorf("a row must have 1 to %d experts, got %d", maxWidth, width)
}

// narrow rewrites the numbers, which have size bytes each, in as few bytes as the largest needs; it keeps those that have
// no more.
func narrow(r Rows, size int) (Rows, error) {
	largest := uint32(0)
	for at := 0; at < len(r.Data); at += size {
		largest = max(largest, number(r.Data[at:], size))
	}

	switch {
	case largest > 0xffff:
		return Rows{}, fmt.Errorf("the number of an expert must be below 65536, got %d", largest)
	case largest > 0xff:
		r.Type = rollout.ExpertUint16
	default:
		r.Type = rollout.ExpertUint8
	}

	to := r.Type.Size()
	if to == size {
		return r, nil
	}

	out := make([]byte, 0, len(r.Data)/size*to)

	for at := 0; at < len(r.Data); at += size {
		n := number(r.Data[at:], size)
		if out = append(out, byte(n)); to > 1 {
			out = append(out, byte(n>>8))
		}
	}

	r.Data = out

	return r, nil
}

func number(b []byte, size int) uint32 {
	switch size {
	case 1:
		return uint32(b[0])
	case 2:
		return uint32(binary.LittleEndian.Uint16(b))
	default:
		return binary.LittleEndian.Uint32(b)
	}
}
