package envserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/searchindex"
	"github.com/rolloutd/rolloutd/internal/store"
)

// indexed is an engine that lists its ended rollouts by a real index of a real store.
type indexed struct {
	*fake
	index *searchindex.Index
}

func (x indexed) List(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	if f.Status == rollout.StatusRunning {
		return x.fake.List(ctx, f)
	}

	return x.index.Search(ctx, f)
}

func (x indexed) Counts(ctx context.Context, f rollout.Filter) (rollout.Counts, error) {
	return x.index.Counts(ctx, f)
}

// startList starts a server whose index has these rollouts.
func startList(t *testing.T, results ...rollout.Result) *rig {
	t.Helper()

	s, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	for _, r := range results {
		require.NoError(t, s.PutJSON(t.Context(), store.HeadKey(r.ID), r))
	}

	index, err := searchindex.Open(t.Context(), filepath.Join(t.TempDir(), "search.db"), s, 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, index.Close()) })
	require.NoError(t, index.Update(t.Context()))

	return start(t, withWeb, func(o *envserver.Options) {
		f, ok := o.Rollouts.(*fake)
		require.True(t, ok)

		for _, r := range results {
			f.specs[r.ID], f.done[r.ID] = rollout.Spec{ID: r.ID, Task: rollout.Task{ID: r.TaskID}}, make(chan struct{})
			f.end(r.ID, r.Outcome)
		}

		o.Rollouts = indexed{f, index}
	})
}

// training are the rollouts of a run as a list has them: of several tasks, agents and outcomes.
func training(n int) (all []rollout.Result) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	outcomes := []rollout.Outcome{
		rollout.Completed, rollout.Completed, rollout.Completed, rollout.AgentTimeout, rollout.Completed, rollout.VerifierFailed,
		rollout.Completed, rollout.AgentFailed,
	}

	for i := range n {
		r := rollout.NewResult(fmt.Sprintf("math-%d-%d", i/4, i%4))
		r.TaskID, r.GroupID = fmt.Sprintf("parse-dates-%d", i/4%6), fmt.Sprintf("math-%d", i/4)
		r.Agent, r.Endpoint, r.Model = []string{"opencode", "react"}[i/4%2], "vllm", "Qwen/Qwen3-8B"
		r.Outcome = outcomes[i%len(outcomes)]

		if r.Outcome == rollout.Completed {
			r.Reward = new(float64(i%3) / 2)
		}

		turns := 1 + i*i%37
		took := time.Duration(20+i*i%600) * time.Second
		begin := at.Add(time.Duration(i) * time.Minute)
		r.Attempts = []rollout.Attempt{{Number: 1, Turns: turns, StartedAt: begin, EndedAt: begin.Add(took)}}
		r.Usage = rollout.Usage{Turns: turns, PromptTokens: int64(turns * 2100), CompletionTokens: int64(turns * 180)}
		all = append(all, r)
	}

	return all
}

// A researcher filters by the histograms of all rollouts, sorts all of them by a column, and chooses the columns.
func TestPageOfRollouts(t *testing.T) {
	t.Parallel()
	r := startList(t, training(200)...)
	b := newBrowser(t, 1280, 900)
	rows := func(n int) { b.eventually(fmt.Sprintf(`document.querySelectorAll("#list tbody tr").length === %d`, n)) }
	click := func(selector, text string) {
		b.eventually(`((button) => (button?.click(), Boolean(button)))([...document.querySelectorAll(` + "`" + selector + "`" + `)].find((e) => e.textContent.includes("` + text + `")))`)
	}

	b.run(chromedp.Navigate(r.url + "/web/#/rollouts"))
	b.waitForText("#total", "200 ended")
	rows(50)
	b.waitForText("#counts", "agent timeout")
	b.waitForText("#counts", "22 – 37")
	b.savePicture("rollouts")
	b.run(chromedp.EmulateViewport(1280, 1400))
	b.saveScreenshot("rollouts-light")
	b.run(setColorScheme("dark"))
	b.saveScreenshot("rollouts-dark")
	b.requireReadable("rollouts dark")
	b.run(setColorScheme("light"))
	b.requireReadable("rollouts light")

	// the longest of all, not of the rows on the page
	click("#list .sort", "Time")
	click("#list .sort", "Time")
	b.eventually(`location.hash === "#/rollouts?sort=-duration_s"`)
	b.waitForText("#list tbody tr", "9 min 56 s")
	b.eventually(`document.querySelector("#list [aria-sort=descending]")?.textContent === "Time"`)

	click("#list .sort", "Time")
	b.eventually(`location.hash === "#/rollouts" && !document.querySelector("#list [aria-sort]")`)
	click("#list .sort", "Reward")
	b.eventually(`location.hash === "#/rollouts?sort=reward"`)

	// a bar selects exactly its rollouts, and the order stays
	click("#counts button", "agent timeout")
	b.eventually(`location.hash.includes("outcome=agent_timeout") && location.hash.includes("sort=reward")`)
	b.waitForText("#total", "25 ended")
	rows(25)
	b.eventually(`((bar) => {
		window.wanted = Number(bar?.querySelector(".number").textContent);
		bar?.click();
		return Boolean(bar);
	})(document.querySelector("#counts figure:nth-child(2) button:last-child"))`)
	b.waitForText("#chips", "turns")
	b.eventually(`0 < wanted && wanted < 25 && document.querySelectorAll("#list tbody tr").length === wanted && document.querySelector("#total").textContent === wanted + " ended"`)
	b.saveScreenshot("rollouts-filtered")
	click(".chip", "outcome")
	b.eventually(`!location.hash.includes("outcome") && location.hash.includes("min_turns=")`)
	click("#chips button", "turns")
	rows(50)

	// columns stay in the address and in the browser
	click("#columns summary", "Columns")
	click("#columns label", "Group")
	b.eventually(`location.hash.includes("columns=task_id%2Cgroup_id") && document.querySelector("#list thead").textContent.includes("Group")`)
	b.saveScreenshot("rollouts-columns")
	b.run(chromedp.Navigate(r.url + "/web/#/producers"))
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?agent=react"))
	b.waitForText("#list thead", "Group")
	b.waitForText("#total", "100 ended")
	b.eventually(`document.querySelector("#filter [name=agent]").value === "react"`)

	b.run(chromedp.EmulateViewport(360, 740))
	b.eventually(`(document.querySelector("#filter details").open = true)`)
	b.saveScreenshot("rollouts-phone")
	b.requireReadable("rollouts on a phone")
}
