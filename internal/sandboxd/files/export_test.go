package files

import "io"

// Unpack unpacks a tar below the folder, which need not be one of those that can be written.
func Unpack(folder string, limit int64, r io.Reader) error {
	return Places{folder}.Unpack(folder, limit, r)
}

// Restore makes the folder equal to a tar.
func Restore(folder string, limit int64, r io.Reader) error {
	return Places{folder}.Restore(folder, limit, r)
}

// Pack packs the folder.
func Pack(folder string, w io.Writer) error {
	s, err := Places{folder}.Open(folder)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Pack(w, 1<<30)
}
