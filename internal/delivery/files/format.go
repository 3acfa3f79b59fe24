package files

import "io"

// Format is how a file has its sequences; it is also the ending of its name.
type Format string

// JSONLines has one sequence a line, as GET /groups/{id}/trajectory?format=jsonl.
const JSONLines Format = "jsonl"

func (f Format) write(w io.Writer, groups func(func([]byte) error) error) error {
	return groups(func(lines []byte) error {
		_, err := w.Write(lines)
		return err
	})
}
