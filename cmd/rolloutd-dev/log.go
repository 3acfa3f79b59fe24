package main

import (
	"io"
	"log/slog"
	"path/filepath"
)

// logs are the loggers of the process and of the embedded server.
type logs struct {
	process, temporal *slog.Logger

	// path of the log file; empty: stderr
	where string
	file  io.Closer
}

// logBytes bounds the log file, and the one before it.
const logBytes = 100 << 20

// openLogs logs to a file in the data folder, or to stderr with --verbose.
func openLogs(f *flags, data string) (*logs, error) {
	if f.verbose {
		return newLogs(f.s.err, slog.LevelDebug, nil, ""), nil
	}

	path := filepath.Join(data, "rolloutd-dev.log")

	file, err := openLogFile(path, logBytes)
	if err != nil {
		return nil, err
	}

	return newLogs(file, slog.LevelInfo, file, path), nil
}

func newLogs(w io.Writer, level slog.Level, file io.Closer, where string) *logs {
	handler := func(level slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	}

	return &logs{
		process:  handler(level),
		temporal: handler(slog.LevelWarn).With("from", "temporal server"),
		where:    where,
		file:     file,
	}
}

// Close closes the file, if there is one.
func (l *logs) Close() error {
	if l.file == nil {
		return nil
	}

	return l.file.Close()
}
