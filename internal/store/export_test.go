package store

import (
	"os"
	"time"
)

// OnSync puts f in the place of the system's sync.
func (s *Store) OnSync(f func(*os.File) error) { s.sync = f }

// AnswerWithin replaces the bound of calls that move little data.
func (s *Store) AnswerWithin(d time.Duration) { s.answer = d }
