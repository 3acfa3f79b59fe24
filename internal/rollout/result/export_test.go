package result

import (
	"io"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// FilesOf exports filesOf for fuzzing.
func FilesOf(r io.Reader) (texts map[string]string, extra []string, err error) {
	texts = map[string]string{}
	err = filesOf(r, texts, &extra)

	return texts, extra, err
}

// ReadTurns exports turnsOf.
func ReadTurns(r io.Reader, res *rollout.Result) error {
	_, err := turnsOf(r, "", res, func(*rollout.Turn) {})
	return err
}
