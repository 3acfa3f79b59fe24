package files

import "io"

// Unpack unpacks a tar below the folder, which need not be one of those that can be written.
func Unpack(folder string, limit int64, r io.Reader) error {
	return Places{folder}.Unpack(folder, limit, r)
}
