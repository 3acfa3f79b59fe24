package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segmentSize is where a segment is full and the next one begins, in bytes. A larger one would be kept
// longer by a single route that has a record in it.
const segmentSize = 64 << 20

const segmentSuffix = ".trace"

// segment is one file of a store.
type segment struct {
	number int
	file   *os.File

	// keys of the logs that have a record in it; guarded by the store's lock
	live map[string]bool
}

// place is where a frame stands.
type place struct {
	Segment int   `json:"segment"`
	At      int64 `json:"at"`

	// size of the frame
	size int64
}

// before reports whether p was written before q.
func (p place) before(q place) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.At < q.At
}

func segmentName(number int) string { return fmt.Sprintf("%08d%s", number, segmentSuffix) }

func openSegment(dir string, number int) (*segment, error) {
	path := filepath.Join(dir, segmentName(number))

	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}

	return &segment{number: number, file: file, live: map[string]bool{}}, nil
}

// retire removes a segment for good.
func (s *segment) retire() error {
	if err := errors.Join(os.Remove(s.file.Name()), s.file.Close()); err != nil {
		return fmt.Errorf("remove trace: %w", err)
	}

	return nil
}

// segmentNumbers lists the segments of a folder in the order they were written. What is named otherwise is
// not the store's: a copy beside a segment must not be taken for that segment once more.
func segmentNumbers(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}

	var list []int

	for _, e := range entries {
		name, _ := strings.CutSuffix(e.Name(), segmentSuffix)
		if n, err := strconv.Atoi(name); err == nil && n > 0 && e.Name() == segmentName(n) {
			list = append(list, n)
		}
	}

	slices.Sort(list)

	return list, nil
}
