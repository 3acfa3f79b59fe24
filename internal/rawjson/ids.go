package rawjson

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Span is the position of the prompt's ids in a reply, including the brackets. It is zero unless AppendIDs
// writes the same bytes for these ids. The ids are most of a reply to a long prompt; with a span they need
// not be stored twice.
type Span struct {
	Start, End int

	// a space after each comma
	Spaced bool
}

// AppendIDs appends ids as a JSON array.
func AppendIDs(b []byte, ids []int32, spaced bool) []byte {
	b = append(b, '[')

	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}

		if i > 0 && spaced {
			b = append(b, ' ')
		}

		b = strconv.AppendInt(b, int64(id), 10)
	}

	return append(b, ']')
}

// IDs appends the token ids of the next array, and returns their position. Prompts have tens of thousands
// of ids, hence one tight loop.
func (c *Cursor) IDs(dst []int32) ([]int32, Span) {
	c.Peek()

	span := Span{Start: c.At}
	if !c.Take('[') {
		return dst, Span{}
	}

	if c.Peek() == ']' {
		c.At++
		return dst, Span{}
	}

	before := len(dst)
	dst, digits := c.appendHalves(dst)
	dst, more := c.appendPlain(dst)
	digits += more

	for n, spaced := len(dst)-before+1, 0; ; n++ {
		c.Peek()

		id, at := parseID(c.Src, c.At)
		if at == c.At || id > math.MaxInt32 {
			c.Bad = true
			return dst, Span{}
		}

		dst, digits, c.At = append(dst, int32(id)), digits+width(c.Src, c.At, at), at
		if (at >= len(c.Src) || c.Src[at] != ',') && c.Peek() != ',' {
			c.Take(']')
			span.End = c.At

			return dst, span.plain(n, digits, spaced)
		}

		c.At++
		if c.At+1 < len(c.Src) && c.Src[c.At] == ' ' && c.Src[c.At+1] > ' ' {
			spaced++
		}
	}
}

// minHalvesBytes is the minimum length of a list for appendHalves to append ids.
const minHalvesBytes = 2 << 10

// appendHalves reserves capacity for the ids of the list. If the list is long, it also appends most of the
// ids: one loop reads the list from its beginning and from its middle. The position of a number is known
// only after the previous number has been read, so one chain of reads leaves the processor idle, and two
// chains run in parallel. If one of them meets a number that appendPlain does not read, nothing is
// appended. It returns the number of digits of the ids.
func (c *Cursor) appendHalves(dst []int32) (_ []int32, digits int) {
	end := bytes.IndexByte(c.Src[c.At:], ']')
	// the ids will fit, or nearly so
	if end < 0 || end < minHalvesBytes && cap(dst) > 0 {
		return dst, 0
	}

	list := c.Src[c.At : c.At+end]
	second := len(list)/2 + bytes.IndexByte(list[len(list)/2:], ',') + 1
	first := bytes.Count(list[:second], []byte(","))
	all := first + bytes.Count(list[second:], []byte(",")) + 1

	dst = slices.Grow(dst, all)
	if end < minHalvesBytes {
		return dst, 0
	}

	into := dst[len(dst) : len(dst)+all]

	i, m, j, n := 0, 0, second, first
	for m < first && len(list)-j > 8 {
		a, b := binary.LittleEndian.Uint64(list[i:]), binary.LittleEndian.Uint64(list[j:])
		x, lx := parse8(a)

		y, ly := parse8(b)
		if !plainID(a, lx) || !plainID(b, ly) {
			return dst, 0
		}

		into[m], into[n] = int32(x), int32(y)
		m, n = m+1, n+1
		i, j = i+lx+1, j+ly+1
	}

	for m < first {
		a := binary.LittleEndian.Uint64(list[i:])

		x, lx := parse8(a)
		if !plainID(a, lx) {
			return dst, 0
		}

		into[m] = int32(x)
		m, i = m+1, i+lx+1
	}
	// no comma in the second half
	if i != second {
		return dst, 0
	}

	c.At += j
	// a comma behind each
	return dst[:len(dst)+n], j - n
}

// plainID reports whether the first n of eight bytes, the lowest first, are a number without a leading
// zero, followed by a comma.
func plainID(b uint64, n int) bool {
	return uint(n-1) < 7 && byte(b>>(8*n)) == ',' && (n == 1 || byte(b) != '0')
}

// appendPlain appends ids as long as each is followed directly by a comma and a digit and has fewer than
// eight digits. This covers all of most lists, because no vocabulary needs eight digits. It returns the
// number of digits of the ids.
func (c *Cursor) appendPlain(dst []int32) (_ []int32, digits int) {
	b, i := c.Src, c.At
	for len(b)-i > 8 {
		id, n := parse8(binary.LittleEndian.Uint64(b[i:]))
		if n == 0 || n == 8 || b[i+n] != ',' || b[i+n+1]-'0' > 9 || n > 1 && b[i] == '0' {
			break
		}

		dst, digits, i = append(dst, int32(id)), digits+n, i+n+1
	}

	c.At = i

	return dst, digits
}

// parse8 reads the decimal number at the beginning of eight bytes, the first byte being the lowest, and
// returns its number of digits. It adds adjacent digits, then pairs, then groups of four, without a branch
// for each digit: after D. Lemire, "Quickly parsing eight digits" (2018).
func parse8(b uint64) (id uint64, n int) {
	b ^= '0' * ones
	// a byte above 9 has its highest bit there
	n = bits.TrailingZeros64((b+0x76*ones|b)&(0x80*ones)) / 8
	// leading zeros
	b <<= 64 - 8*n
	b = b*10 + b>>8
	low, high := b&0x000000ff000000ff, b>>16&0x000000ff000000ff

	return (low*(100+1000000<<32) + high*(1+10000<<32)) >> 32, n
}

// ones has a 1 in each byte.
const ones = 0x0101010101010101

// plain returns the span if it consists of brackets, n ids with the given number of digits, and commas,
// followed by a single space each or by none. It returns the zero span otherwise. A leading zero is not
// counted as a digit, so it shows as an additional byte.
func (s Span) plain(n, digits, spaced int) Span {
	rest := s.End - s.Start - len("[]") - digits - (n - 1)
	switch {
	case rest == 0:
		return s
	case rest == n-1 && spaced == n-1:
		s.Spaced = true
		return s
	default:
		return Span{}
	}
}

// ID reads one token id.
func (c *Cursor) ID() int32 {
	n := c.Integer()
	if n < 0 || n > math.MaxInt32 {
		c.Bad = true
		return 0
	}

	return int32(n)
}

// parseID reads digits, ten at most, and returns where they end.
func parseID(b []byte, at int) (id uint64, end int) {
	if len(b) > at+10 {
		b = b[:at+10]
	}

	for ; at < len(b); at++ {
		d := b[at] - '0'
		if d > 9 {
			break
		}

		id = id*10 + uint64(d)
	}

	return id, at
}

// width returns the number of digits of the number from start to end.
func width(b []byte, start, end int) int {
	for end-start > 1 && b[start] == '0' {
		start++
	}

	return end - start
}
