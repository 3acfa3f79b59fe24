package trace

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A frame is: mark, uint32; length of the body, uint32; CRC-32C of the body, uint32; body. A body is: its
// type, one byte; length of the head, uint32; head; sections. All little endian.
const (
	frameHead = 12
	bodyHead  = 5
	// frameMark lets a reader find the next frame after one with an invalid length.
	frameMark = "\xf5rd\x01"
	// maxBody refuses lengths that only a damaged file has: requests and replies have much lower bounds.
	maxBody = 1 << 30
)

// Types of bodies.
const (
	typeCall      = 'C'
	typeDelivered = 'D'
	typeExperts   = 'E'
)

var errDamaged = errors.New("damaged frame")

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// frame is a frame to write: its header, the body's head, and the sections, which are not copied.
type frame [][]byte

// startFrame returns the beginning of a frame, with room for a head to append.
func startFrame(kind byte, room int) []byte {
	b := make([]byte, frameHead+bodyHead, frameHead+bodyHead+room)
	copy(b, frameMark)
	b[frameHead] = kind

	return b
}

// newFrame returns a frame of its beginning, with the head, and its sections.
func newFrame(start []byte, sections ...[]byte) frame {
	binary.LittleEndian.PutUint32(start[frameHead+1:], uint32(len(start)-frameHead-bodyHead))
	f := append(frame{start}, sections...)
	f.seal()

	return f
}

// size returns the length of the whole frame.
func (f frame) size() int64 {
	n := 0
	for _, part := range f {
		n += len(part)
	}

	return int64(n)
}

// seal sets the length and the checksum.
func (f frame) seal() {
	sum := crc32.Checksum(f[0][frameHead:], castagnoli())
	for _, part := range f[1:] {
		sum = crc32.Update(sum, castagnoli(), part)
	}

	binary.LittleEndian.PutUint32(f[0][4:], uint32(f.size()-frameHead))
	binary.LittleEndian.PutUint32(f[0][8:], sum)
}

// openFrame returns the body of the frame at the beginning of b.
func openFrame(b []byte) (body []byte, err error) {
	if len(b) < frameHead || string(b[:4]) != frameMark {
		return nil, errDamaged
	}

	n, sum := int64(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint32(b[8:])
	if n < bodyHead || n > maxBody || n > int64(len(b)-frameHead) {
		return nil, errDamaged
	}

	body = b[frameHead : frameHead+n : frameHead+n]
	if crc32.Checksum(body, castagnoli()) != sum {
		return nil, errDamaged
	}

	return body, nil
}

// split returns the parts of a checked body.
func split(body []byte) (kind byte, head, sections []byte, err error) {
	n := int64(binary.LittleEndian.Uint32(body[1:]))
	if n > int64(len(body)-bodyHead) {
		return 0, nil, nil, errDamaged
	}

	return body[0], body[bodyHead : bodyHead+n], body[bodyHead+n:], nil
}
