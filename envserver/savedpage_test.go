//go:build !race

package envserver_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// openSaved saves a page of the server to a file, and opens the file in a browser. Its policy lets it reach no server.
func openSaved(t *testing.T, r *rig, path string) browser {
	t.Helper()

	status, header, text := r.do("GET", path, "")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, header.Get("Content-Disposition"), "attachment")
	require.NotContains(t, text, `from "./`, "each script is in the file")

	file := filepath.Join(t.TempDir(), "saved.html")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))

	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate("file://" + file))

	return b
}

// A rollout that is saved as a file opens without the server: conversation, tokens, verifier, files and logs.
func TestSavedPageOfARollout(t *testing.T) {
	t.Parallel()

	r := start(t, withWeb)
	long := strings.Repeat("a line of a long output\n", 20_000)
	r.record(slices.Insert(mendingSession(), 1, agentCall{
		text:      "<script>document.title = 'no'</script></script>",
		tool:      "bash",
		arguments: `{"command":"seq"}`,
		result:    long + "its end",
	}))
	r.begin("saved")

	b := openSaved(t, r, "/rollouts/saved/page")
	b.waitForText("#rollout .badge", "completed")
	b.waitForText("#rollout .left", "Empty fields are skipped")
	b.waitForText("#rollout .left", "<script>document.title = 'no'</script>")
	b.eventually(`document.title === "saved – rolloutd" && location.hash.startsWith("#/rollouts/saved")`)

	// the rest of a text that the page reads in ranges
	b.waitForText("#rollout .left", "Load more")
	b.eventually(`(() => {
		const more = [...document.querySelectorAll("#rollout button")].filter((b) => b.textContent.includes("Load more"));
		more.forEach((button) => button.click());
		return !more.length;
	})()`)
	b.eventually(`document.querySelector("#rollout .left").textContent.includes("its end")`)

	for tab, part := range map[string]string{
		"timeline": "running agent", "calls": "tool_calls", "verifier": "reward", "tokens": "Sampled tokens", "files": "größe.txt", "data": "capture",
	} {
		b.openTab(tab)
		b.eventually(`document.querySelector("#panel-` + tab + `").textContent.toLowerCase().includes("` + strings.ToLower(part) + `")`)
	}

	b.openTab("tokens")
	b.run(chromedp.Click(`//button[text()="Jump to the least likely token"]`))
	b.waitForText("#panel-tokens .alternatives", "other")

	b.openTab("logs")
	b.run(chromedp.Click(`//summary[contains(., "Log of the agent")]`))
	b.waitForText("#panel-logs", "agent of saved")
	b.eventually(`document.querySelector("#alert").hidden`)
	b.eventually(`!document.querySelector("nav").checkVisibility()`)

	// what is not in the file is not said to be missing on the server
	b.eventually(`(location.hash = "#/rollouts/other", true)`)
	b.waitForText("#alert", "This file does not have it")
}

// A group is saved with all its rollouts, and each opens from its list.
func TestSavedPageOfAGroup(t *testing.T) {
	t.Parallel()

	r, groups := withGroups(t, withWeb)
	r.record(mendingSession())
	status, _, text := r.do("POST", "/groups", groupBody("pair"))
	require.Equal(t, http.StatusAccepted, status, text)

	status, _, text = r.do("GET", "/groups/pair/page", "")
	require.Equal(t, http.StatusConflict, status, text)

	r.begin("pair-0")
	r.begin("pair-1")
	groups.finish("pair", new(1.0), new(0.5))

	b := openSaved(t, r, "/groups/pair/page")
	b.waitForText("#group-title", "pair")
	b.run(chromedp.Click(`//button[text()="Show side by side"]`))
	b.waitForText("#group", "All 6 turns are the same.")
	b.eventually(`(document.querySelector("#group a").click(), true)`)
	b.waitForText("#rollout .badge", "completed")
}

// A page is refused while its rollout runs, and for an id that nothing has.
func TestSavedPageIsRefused(t *testing.T) {
	t.Parallel()

	r := start(t, withWeb)
	body, err := json.Marshal(task("running", waits))
	require.NoError(t, err)
	r.do("POST", "/rollouts", string(body))

	for path, want := range map[string]int{
		"/rollouts/running/page": http.StatusConflict,
		"/rollouts/none/page":    http.StatusNotFound,
	} {
		status, _, text := r.do("GET", path, "")
		require.Equal(t, want, status, text)
	}
}
