package activities

import "io"

// FilesOf is filesOf, for fuzzing.
func FilesOf(r io.Reader) (texts map[string]string, extra []string, err error) {
	texts = map[string]string{}
	err = filesOf(r, texts, &extra)
	return texts, extra, err
}
