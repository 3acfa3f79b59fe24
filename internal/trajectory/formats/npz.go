package formats

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// NPZElement is the type of a number in an array.
type NPZElement interface {
	bool | int32 | int64 | float64
}

// NPZWriter writes an archive of arrays that numpy.load reads without pickle. It buffers one chunk of an array,
// whatever the array's size.
//
// The format is that of numpy.lib.format, version 1.0; entries are not compressed, as with numpy.savez. The known
// Go library for it was last released in 2022, pads the header differently from numpy, and depends on a library for
// linear algebra.
type NPZWriter struct {
	zip *zip.Writer
	buf []byte
}

// NewNPZWriter starts an archive in w.
func NewNPZWriter(w io.Writer) *NPZWriter { return &NPZWriter{zip: zip.NewWriter(w)} }

// Close ends the archive; an archive that is not closed cannot be read. It does not close the underlying writer.
func (w *NPZWriter) Close() error {
	if err := w.zip.Close(); err != nil {
		return fmt.Errorf("end archive: %w", err)
	}

	return nil
}

// AddArray writes a one-dimensional array under a name.
func AddArray[T NPZElement](w *NPZWriter, name string, values []T) error {
	var zero T

	return addArray(w, name, dtype(zero), values, func(buf []byte, chunk []T) ([]byte, error) {
		return binary.Append(buf, binary.LittleEndian, chunk)
	})
}

// AddStrings writes a one-dimensional array of strings, each as wide as the longest. Bytes that are not
// UTF-8 become U+FFFD.
func AddStrings(w *NPZWriter, name string, values []string) error {
	// numpy has no use for a width of 0
	width := 1
	for _, v := range values {
		width = max(width, utf8.RuneCountInString(v))
	}

	return addArray(w, name, fmt.Sprintf("<U%d", width), values, func(buf []byte, chunk []string) ([]byte, error) {
		for _, v := range chunk {
			end := len(buf) + 4*width
			for _, r := range v {
				buf = binary.LittleEndian.AppendUint32(buf, uint32(r))
			}

			buf = append(buf, make([]byte, end-len(buf))...)
		}

		return buf, nil
	})
}

// chunkSize is the number of values that are encoded at a time.
const chunkSize = 16 << 10

func addArray[T any](w *NPZWriter, name, dtype string, values []T, encode func([]byte, []T) ([]byte, error)) error {
	entry, err := w.zip.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
	if err != nil {
		return fmt.Errorf("begin array %s: %w", name, err)
	}

	if _, err := entry.Write(header(dtype, len(values))); err != nil {
		return fmt.Errorf("write array %s: %w", name, err)
	}

	for chunk := range slices.Chunk(values, chunkSize) {
		if w.buf, err = encode(w.buf[:0], chunk); err == nil {
			_, err = entry.Write(w.buf)
		}

		if err != nil {
			return fmt.Errorf("write array %s: %w", name, err)
		}
	}

	return nil
}
