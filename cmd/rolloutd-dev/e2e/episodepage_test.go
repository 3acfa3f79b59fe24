package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/chromium"
)

// An operator sees the episodes that run and those that have ended, follows one while its client works, and reads it
// afterwards in each tab.
func TestEpisodesOnThePage(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	ended, live := player{srv.url, "ended"}, player{srv.url, "live"}

	begin := func(p player) string {
		r, err := p.post("/reset", args{"task_id": "count", "instruction": "Write 3 into n.txt.", "verify": []string{"grep -q 3 n.txt"}, "setup": []string{"echo 1 > n.txt"}})
		require.NoError(t, err)

		return r.Observation.RolloutID
	}

	liveID, endedID := begin(live), begin(ended)
	ended.mustBash(t, "look", "cat n.txt")
	ended.mustBash(t, "write", "echo 3 > n.txt")

	failed, err := ended.bash("miss", "cat missing.txt; exit 3")
	require.NoError(t, err)
	require.True(t, failed.Observation.Result.IsError)

	end, err := ended.post("/step", args{"action": args{"tool_name": "submit", "arguments": args{}}})
	require.NoError(t, err)
	require.True(t, end.Done)
	require.EqualValues(t, 1, *end.Reward)

	live.mustBash(t, "first", "echo begun")
	start(t, srv.url, args{"rollout_id": "other", "instruction": "Do it.", "agent": "react", "endpoint": "scripted"})
	finalize(t, srv.url, "other")

	page := chromium.Open(t, 1440, 1000, 2*time.Minute)
	page.Run(chromedp.Navigate(srv.url + "/web/#/rollouts"))
	page.Click("Episodes")

	// a row: id, calls, outcome
	row := func(id string, parts ...string) string {
		script := `((row) => Boolean(row`
		for _, part := range parts {
			script += ` && row.innerText.includes(` + chromium.Text(part) + `)`
		}

		return script + `))([...document.querySelectorAll("#list tbody tr")].find((r) => r.innerText.includes(` + chromium.Text(id) + `)))`
	}

	page.Eventually(`document.querySelector("#rollouts-title").textContent === "Episodes" && document.title === "Episodes – rolloutd"`)
	page.Eventually(row(liveID, "count", "running agent", "\t1\t"))
	// the index of rollouts that have ended is read at intervals
	page.Eventually(row(endedID, "count", "completed", "\t3\t", "1"))
	page.Eventually(`document.querySelector("#list tbody tr").innerText.includes(` + chromium.Text(liveID) + `)`)
	page.Eventually(`![...document.querySelectorAll("#list tbody a")].some((a) => a.textContent === "other")`)

	// the list goes on by itself
	live.mustBash(t, "second", "echo twice")
	page.Eventually(row(liveID, "\t2\t"))

	page.Click(liveID)
	page.Sees("echo twice")
	live.mustBash(t, "third", "echo thrice")
	page.Sees("thrice")

	page.Run(chromedp.Navigate(srv.url + "/web/#/rollouts/" + endedID))
	page.Sees("Write 3 into n.txt.")
	page.Sees("Call 3")
	page.Sees("exit 3")

	for _, tab := range []struct{ name, shows string }{
		{"Timeline", "Episode: between the client's calls"},
		{"Model calls", "The model of an episode is its client's."},
		{"Verifier", "grep -q 3 n.txt"},
		{"Tokens", "The model of an episode is its client's."},
		{"Files", "n.txt"},
		{"Logs", "Log of the verifier"},
		{"Data", "Result without its model calls"},
	} {
		page.Click(tab.name)
		page.Eventually(`[...document.querySelectorAll("[role=tabpanel]")].some((p) => !p.hidden && p.innerText.includes(` + chromium.Text(tab.shows) + `))`)
	}

	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "view", endedID, "--server", srv.url).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "cat missing.txt; exit 3")

	status, text := postJSON(t, srv.url+"/rollouts/"+liveID+"/abort", args{})
	require.Less(t, status, http.StatusMultipleChoices, text)
}
