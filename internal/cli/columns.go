package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Columns writes rows below each other, with the cells of a column aligned.
type Columns struct{ w *tabwriter.Writer }

// NewColumns begins rows with a header.
func NewColumns(w io.Writer, header ...any) Columns {
	c := Columns{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	c.Row(header...)

	return c
}

// Row adds a row.
func (c Columns) Row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(c.w, "\t")
		}

		fmt.Fprint(c.w, cell)
	}

	fmt.Fprintln(c.w)
}

// Flush writes the rows.
func (c Columns) Flush() {
	// fails only if the output is closed
	_ = c.w.Flush()
}
