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

// logger gives the Temporal server's log lines to slog. Once the server is stopping, its parts warn of losing each other,
// which is what a stop is; only errors are logged then. What the server thinks fatal ends the goroutine that says so and is
// reported to the owner of the server; the library's own logger would end the process on the spot.
type logger struct {
	slog     *slog.Logger
	fatal    func(error)
	stopping *atomic.Bool
}

func (l logger) Debug(msg string, tags ...tag.Tag) {
	if l.slog.Enabled(context.Background(), slog.LevelDebug) { // the server has debug lines in each of its tasks
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

// cause makes an error of a fatal line: its words, and the error among its tags.
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
