package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// aliveFile was last written when a gateway of the folder was last alive.
const aliveFile = ".alive"

// Alive is when a gateway of the folder was last alive; the zero time: there was none.
func Alive(folder string) time.Time {
	info, err := os.Stat(filepath.Join(folder, aliveFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// NoteAlive notes that a gateway of the folder is alive.
func NoteAlive(folder string) error {
	if err := os.WriteFile(filepath.Join(folder, aliveFile), nil, 0o600); err != nil {
		return fmt.Errorf("note that the gateway is alive: %w", err)
	}
	return nil
}
