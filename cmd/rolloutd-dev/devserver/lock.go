package devserver

import (
	"errors"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

// lockDatabase makes this process the only one that serves the database file. Temporal itself does not
// check: two servers on one file both start, and both answer.
func lockDatabase(file string) (*filelock.Lock, error) {
	lock, err := filelock.Acquire(file + ".lock")

	var held *filelock.HeldError
	if errors.As(err, &held) {
		return nil, &InUseError{Database: file, Owner: held.Owner}
	}

	return lock, err
}
