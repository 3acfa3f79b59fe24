//go:build !race

package envserver_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// An output of 50 MB is shown from its beginning, and in parts for as long as a reader asks for more.
func TestPageShowsAnOutputOf50MB(t *testing.T) {
	t.Parallel()

	line := "\u202e50 MB <b>of</b> \u001b[31mthis\n"
	b := startViewer(t, []agentCall{
		{tool: "bash", arguments: `{"command":"yes"}`, result: strings.Repeat(line, 50<<20/len(line))},
		{text: "done"},
	}, "")
	b.waitForText(".turn[data-turn='1'] .output", "⟨U+202E⟩50 MB <b>of</b> ␛[31mthis")
	// the part that the trace's page sends has taken the place of the event's
	b.waitForText(".turn[data-turn='1'] .output", " of 50.0 MiB are here. Load more")

	shown := func() int {
		n, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](`document.querySelector(".output pre").textContent.length`))
		require.NoError(t, err)

		return n
	}
	first := shown()

	b.eventually(`(document.querySelector(".output button:last-of-type").click(), true)`)
	b.eventually(`document.querySelector(".output pre").textContent.length > ` + strconv.Itoa(first))
	b.eventually(`document.querySelectorAll("main b").length > 0 && document.querySelectorAll(".output pre *").length === 0`)
}
