package store

import "os"

// OnSync puts f in the place of the system's sync.
func (s *Store) OnSync(f func(*os.File) error) { s.sync = f }
