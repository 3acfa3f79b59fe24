package store

import (
	"os"
	"time"
)

// OnSync replaces the system's sync by f.
func (s *Store) OnSync(f func(*os.File) error) { s.sync = f }

// AnswerWithin replaces the timeout of calls that move little data.
func (s *Store) AnswerWithin(d time.Duration) { s.answer = d }
