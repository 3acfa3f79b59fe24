//go:build !linux

package trace

import (
	"os"
	"slices"
)

func syncData(f *os.File) error { return f.Sync() }

func writeAt(f *os.File, parts [][]byte, at int64) error {
	_, err := f.WriteAt(slices.Concat(parts...), at)
	return err
}
