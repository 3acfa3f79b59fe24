package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Framed is the argument that asks for frames on stdin, with the time that may pass between two of them:
//
//	attach --framed 90s PATH
//
// It is for providers that do not close the stdin of a process whose client has died. The process ends when
// no frame comes for that time.
const Framed = "--framed"

// EndFrame is the header of the last frame. Any other header is the length of the following data,
// big-endian; 0 is a keep-alive frame.
const EndFrame = 1<<32 - 1

// headerSize is the length of a frame's header, in bytes.
const headerSize = 4

// maxFrame bounds the data of one frame, in bytes.
const maxFrame = 16 << 20

// errSilent means that the client has died.
var errSilent = errors.New("no frame came in time")

// Frame returns the data, at most 16 MiB, with its header.
func Frame(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, headerSize+len(data)), uint32(len(data))), data...)
}

// unframe copies the data of frames until the last one.
func unframe(to io.Writer, from *os.File, atMost time.Duration) error {
	timer := time.AfterFunc(atMost, func() {
		fmt.Fprintln(os.Stderr, "sandboxd: attach:", errSilent)
		os.Exit(1)
	})
	defer timer.Stop()

	var header [headerSize]byte
	for {
		if _, err := io.ReadFull(from, header[:]); err != nil {
			return err
		}

		timer.Reset(atMost)

		size := binary.BigEndian.Uint32(header[:])
		switch {
		case size == EndFrame:
			return nil
		case size > maxFrame:
			return fmt.Errorf("a frame must have at most %d bytes, got %d", maxFrame, size)
		}

		if _, err := io.CopyN(to, from, int64(size)); err != nil {
			return err
		}
	}
}
