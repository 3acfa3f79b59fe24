package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// logFile is a file of at most max bytes. What it had before is in a second file, with the suffix .1. It is safe for
// concurrent use.
type logFile struct {
	path string
	max  int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLogFile(path string, most int64) (*logFile, error) {
	l := &logFile{path: path, max: most}

	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}

	st, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("log: %w", err), file.Close())
	}

	l.file, l.size = file, st.Size()

	return nil
}

// Write writes a line. A file that cannot be replaced is continued: its lines matter more than its size.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.size > 0 && l.size+int64(len(line)) > l.max {
		l.replace()
	}

	n, err := l.file.Write(line)
	l.size += int64(n)

	return n, err
}

func (l *logFile) replace() {
	old := l.file

	if os.Rename(l.path, l.path+".1") == nil && l.open() == nil {
		_ = old.Close()
	}
}

// Close closes the file.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.file.Close()
}
