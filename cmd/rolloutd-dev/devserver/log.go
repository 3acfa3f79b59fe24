package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"

	"go.temporal.io/server/common/log/tag"
)

// logger writes the Temporal server's log lines to slog. While the server stops, its parts warn that they
// lose each other; only errors are logged then. A fatal line ends the goroutine that logs it and is
// reported to the owner of the server; the library's own logger would end the process.
type logger struct {
	slog     *slog.Logger
	fatal    func(error)
	stopping *atomic.Bool
}

func (l logger) Debug(msg string, tags ...tag.Tag) {
	// the server has debug lines in each of its tasks
	if l.slog.Enabled(context.Background(), slog.LevelDebug) {
		l.slog.Debug(msg, attrs(tags)...)
	}
}

func (l logger) Info(msg string, tags ...tag.Tag)   { l.slog.Info(msg, attrs(tags)...) }
func (l logger) Error(msg string, tags ...tag.Tag)  { l.slog.Error(msg, attrs(tags)...) }
func (l logger) DPanic(msg string, tags ...tag.Tag) { l.slog.Error(msg, attrs(tags)...) }

func (l logger) Warn(msg string, tags ...tag.Tag) {
	if !l.stopping.Load() {
		l.slog.Warn(msg, attrs(tags)...)
	}
}

func (l logger) Panic(msg string, tags ...tag.Tag) {
	l.slog.Error(msg, attrs(tags)...)
	panic(msg)
}

func (l logger) Fatal(msg string, tags ...tag.Tag) {
	l.slog.Error(msg, attrs(tags)...)
	l.fatal(cause(msg, tags))
	runtime.Goexit()
}

func attrs(tags []tag.Tag) []any {
	out := make([]any, 0, len(tags))
	for _, t := range tags {
		out = append(out, slog.Any(t.Key(), t.Value()))
	}

	return out
}

// cause converts a fatal line into an error: its message, and the error among its tags.
func cause(msg string, tags []tag.Tag) error {
	for _, t := range tags {
		if field, ok := t.(tag.ZapTag); ok {
			if err, ok := field.Field().Interface.(error); ok {
				return fmt.Errorf("%s: %w", msg, err)
			}
		}
	}

	return errors.New(msg)
}
