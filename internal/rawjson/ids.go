package rawjson

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Span is where in a reply the prompt's ids stand, brackets included. It is zero unless they are spelt so plainly that
// AppendIDs spells them again, byte for byte: they are most of a reply to a long prompt, and need not be kept twice.
type Span struct {
	Start, End int
	Spaced     bool // a space after each comma
}

// AppendIDs spells ids as a JSON array.
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

// IDs appends the token ids of the next array, and returns their position. Prompts have tens of thousands of ids, hence one tight loop.
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
	dst, digits := c.halves(dst)
	dst, more := c.tight(dst)
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

// minHalves is the length of a list, in bytes, from which on it is read in halves.
const minHalves = 2 << 10

// halves makes room for the ids of the list and, if it is long, appends most of them: it reads the list from its beginning and from its middle at
// once. Where a number begins is known only after the one before it has been looked at, which leaves a processor idle; two of these chains run side by
// side. It stops where the first of them meets what tight would, and then appends nothing. It returns how many digits the ids have.
func (c *Cursor) halves(dst []int32) (_ []int32, digits int) {
	end := bytes.IndexByte(c.Src[c.At:], ']')
	if end < 0 || end < minHalves && cap(dst) > 0 { // the ids will fit, or nearly so
		return dst, 0
	}
	list := c.Src[c.At : c.At+end]
	second := len(list)/2 + bytes.IndexByte(list[len(list)/2:], ',') + 1
	first := bytes.Count(list[:second], []byte(","))
	all := first + bytes.Count(list[second:], []byte(",")) + 1
	dst = slices.Grow(dst, all)
	if end < minHalves {
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
	if i != second { // no comma in the second half
		return dst, 0
	}
	c.At += j
	return dst[:len(dst)+n], j - n // a comma behind each
}

// plainID reports whether the first n of eight bytes, the lowest first, are a number without a leading zero, followed by a comma.
func plainID(b uint64, n int) bool {
	return uint(n-1) < 7 && byte(b>>(8*n)) == ',' && (n == 1 || byte(b) != '0')
}

// tight appends ids for as long as there is a comma and a digit right behind each, and none has eight digits, as no vocabulary
// needs: all of most lists. It returns how many digits they have.
func (c *Cursor) tight(dst []int32) (_ []int32, digits int) {
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

// parse8 reads the number that the first n of eight bytes spell, the first of them the lowest. It adds up neighbouring digits,
// then pairs, then fours, without a look at each: after D. Lemire, "Quickly parsing eight digits" (2018).
func parse8(b uint64) (id uint64, n int) {
	b ^= '0' * ones
	n = bits.TrailingZeros64((b+0x76*ones|b)&(0x80*ones)) / 8 // a byte above 9 has its highest bit there
	b <<= 64 - 8*n                                            // leading zeros
	b = b*10 + b>>8
	low, high := b&0x000000ff000000ff, b>>16&0x000000ff000000ff
	return (low*(100+1000000<<32) + high*(1+10000<<32)) >> 32, n
}

// ones has a 1 in each byte.
const ones = 0x0101010101010101

// plain keeps the span if n ids of so many digits, so many of them after a single space, are all that is in it. A leading
// zero counts for no digit, so that it shows as a byte too many.
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
