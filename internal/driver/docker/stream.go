package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"

	"github.com/rolloutd/rolloutd/internal/sandboxd/attach"
)

// maxSaid bounds the kept part of stderr, in bytes.
const maxSaid = 1000

// stream is an exec as a connection: writes go to stdin, reads come from stdout. The engine sends stdout
// and stderr in frames: a header of 8 bytes, with the stream's number in the first byte and the length in
// the last four.
type stream struct {
	net.Conn
	in     *bufio.Reader
	header [8]byte

	// bytes read of the header
	have int

	// bytes left of the frame's data
	remaining uint32

	// beginning of stderr
	stderr []byte
}

// Read implements net.Conn. A deadline may interrupt it inside a frame; the next call continues there.
func (s *stream) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if err := s.next(); err != nil {
			return 0, err
		}

		if stdcopy.StdType(s.header[0]) == stdcopy.Stdout {
			n, err := s.in.Read(p[:min(len(p), int(s.remaining))])
			s.remaining -= uint32(n)

			return n, err
		}

		if err := s.skip(); err != nil {
			return 0, err
		}
	}

	return 0, nil
}

// ready waits until sandboxd has accepted the connection, which the start of the exec does not prove.
func (s *stream) ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })

	var first [1]byte

	_, err := io.ReadFull(s, first[:])

	if !stop() {
		return ctx.Err()
	}

	if err == nil && first[0] != attach.Ready {
		err = fmt.Errorf("the connection into the sandbox begins with %q", first)
	}

	return err
}

// next reads headers until there is data.
func (s *stream) next() error {
	for s.remaining == 0 {
		if s.have == len(s.header) {
			s.have = 0
		}

		n, err := s.in.Read(s.header[s.have:])

		s.have += n
		if err == io.EOF && len(s.stderr) > 0 {
			return fmt.Errorf("the connection into the sandbox ended: %q", s.stderr)
		}

		if err != nil {
			return err
		}

		if s.have == len(s.header) {
			s.remaining = binary.BigEndian.Uint32(s.header[4:])
		}
	}

	return nil
}

// skip reads part of a frame that is not stdout.
func (s *stream) skip() error {
	var piece [256]byte

	n, err := s.in.Read(piece[:min(len(piece), int(s.remaining))])
	s.remaining -= uint32(n)
	s.stderr = append(s.stderr, piece[:min(n, maxSaid-len(s.stderr))]...)

	return err
}
