package filetool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxRead bounds the content of one answer, in bytes; maxScan bounds the search for the lines.
const (
	maxRead = 100_000
	maxScan = 1 << 30
)

// readArguments has floats, as the schema accepts 2.0 as an integer.
type readArguments struct {
	location

	// the first line, from 1; 0: from the start
	Offset float64 `json:"offset"`

	// number of lines; 0: to the end
	Limit float64 `json:"limit"`
}

// lineNumber converts n to an int that does not overflow when two are added. maxScan bytes have no more lines.
func lineNumber(n float64) int { return int(min(n, maxScan+1)) }

func read(a readArguments) (wire.FileAnswer, error) {
	f, err := openRegular(a.Path)
	if err != nil {
		return wire.FileAnswer{}, err
	}
	defer f.Close()

	st, err := f.Stat()
	if err != nil {
		return wire.FileAnswer{}, explain(a.Path, err)
	}

	answer := wire.FileAnswer{Size: st.Size()}

	text := bufio.NewReaderSize(io.LimitReader(f, maxScan), 64<<10)
	if start, _ := text.Peek(8000); bytes.IndexByte(start, 0) >= 0 {
		return answer, fmt.Errorf("%s is a binary file of %d bytes, which is not shown", a.Path, st.Size())
	}

	first := max(lineNumber(a.Offset), 1)

	c, err := cut(text, first, lineNumber(a.Limit))
	if err != nil {
		return answer, explain(a.Path, err)
	}
	// the first line of an empty file is its end
	if c.lines < first && first > 1 {
		return answer, fmt.Errorf("%s has %d lines, and offset is %.0f", a.Path, c.lines, a.Offset)
	}

	answer.Content = c.text()

	return answer, nil
}

// piece is a range of lines of a file.
type piece struct {
	content bytes.Buffer

	// lines read, including those before the piece
	lines int

	// number of the last line in content
	last int

	// content has reached maxRead: the rest of the piece is omitted
	full bool
}

// cut reads limit lines (0: all) from line first, whole lines within maxRead bytes.
func cut(r *bufio.Reader, first, limit int) (*piece, error) {
	p := &piece{}
	for limit <= 0 || p.lines < first-1+limit {
		line, err := p.line(r, p.lines+1 >= first)
		if line {
			p.lines++
		}

		if errors.Is(err, io.EOF) {
			return p, nil
		}

		if err != nil {
			return p, err
		}
	}

	return p, nil
}

// line reads one line, into content if wanted and if there is room. It reports whether there was one.
func (p *piece) line(r *bufio.Reader, wanted bool) (found bool, err error) {
	wanted = wanted && !p.full

	for {
		part, err := r.ReadSlice('\n')

		found = found || len(part) > 0
		if wanted {
			if room := maxRead - p.content.Len(); len(part) > room {
				p.full, wanted = true, false
				part = part[:room]
			}

			p.content.Write(part)
		}

		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}

		if wanted && found {
			p.last = p.lines + 1
		}

		return found, err
	}
}

// text returns the content and a note on what was omitted.
func (p *piece) text() string {
	text := strings.ToValidUTF8(p.content.String(), "\uFFFD")
	if p.full {
		text += fmt.Sprintf(
			"\n[... left out: the rest of line %d and the lines up to %d; read them with offset and limit ...]",
			p.last+1,
			p.lines,
		)
	}

	return text
}
