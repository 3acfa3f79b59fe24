//go:build !race

package envserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
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
func startList(t *testing.T, producers envserver.Producers, results ...rollout.Result) *rig {
	t.Helper()

	s, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	for _, r := range results {
		require.NoError(t, s.PutJSON(t.Context(), store.HeadKey(r.ID), r))
		putReply(t, s, r)
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

		o.Rollouts, o.Producers = indexed{f, index}, producers
	})
}

// putReply stores replies to a rollout whose endpoint gets new weights every 40 minutes.
func putReply(t *testing.T, s *store.Store, r rollout.Result) {
	t.Helper()

	at := r.Attempts[0].StartedAt

	var trace bytes.Buffer

	// each begins a training sequence, because their prompts have nothing in common
	for n := range int32(1 + at.Unix()/2400%3) {
		require.NoError(t, json.NewEncoder(&trace).Encode(rollout.Turn{
			Turn: int(n) + 1, Kind: rollout.KindAgent, Timestamp: float64(at.Unix()), ModelVersion: fmt.Sprintf("step-%d", at.Unix()/2400%100),
			Delivered: true, PromptTokenIDs: []int32{n}, CompletionTokenIDs: []int32{n},
		}))
	}

	_, err := s.Put(t.Context(), store.AttemptKey(r.ID, 1, store.Trace), &trace)
	require.NoError(t, err)
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
		r.Phases = []rollout.PhaseTiming{
			{Phase: rollout.PhaseQueued, Attempt: 1, Start: begin, End: new(begin.Add(took / 4))},
			{Phase: rollout.PhaseAgent, Attempt: 1, Start: begin.Add(took / 4)},
		}
		r.Usage = rollout.Usage{Turns: turns, PromptTokens: int64(turns * 2100), CompletionTokens: int64(turns * 180)}
		all = append(all, r)
	}

	return all
}

// A researcher filters by the histograms of all rollouts, sorts all of them by a column, and chooses the columns.
func TestPageOfRollouts(t *testing.T) {
	t.Parallel()
	r := startList(t, newFakeProducers(), training(200)...)
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

// A list shows what was chosen last, however late the answer to an earlier choice comes.
func TestPageOfTheLatestChoice(t *testing.T) {
	t.Parallel()
	r := startList(t, newFakeProducers(), training(40)...)
	b := newBrowser(t, 1280, 900)

	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?outcome=completed"))
	b.waitForText("#total", "25 ended")

	b.holdAnswers("outcome=completed", `document.querySelector("#filter").requestSubmit()`)
	b.run(chromedp.Evaluate[chromedp.Void](`location.hash = "#/rollouts?outcome=agent_failed"`))
	b.waitForText("#total", "5 ended")
	b.releaseAnswers()

	shown, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("#list tbody").innerText`))
	require.NoError(t, err)
	require.Contains(t, shown, "agent failed")
	require.NotContains(t, shown, "completed")
}

// A reader goes from row to row by the keyboard, whatever other links a row has, and sees a cost above $100 as it is.
func TestPageOfRowsAndCosts(t *testing.T) {
	t.Parallel()

	all := training(3)
	for i, usd := range []float64{0.0000123, 4.5, 1234.567} {
		all[i].Usage.CostUSD = usd
	}

	r := startList(t, newFakeProducers(), all...)
	b := newBrowser(t, 1280, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?columns=task_id,cost"))

	for _, cost := range []string{"$0.000012", "$4.50", "$1,234.57"} {
		b.waitForText("#list", cost)
	}

	b.run(chromedp.KeyEvent("jj"))
	b.eventually(`document.activeElement === document.querySelectorAll("#list tbody tr")[1].querySelector("a")`)
	b.run(chromedp.KeyEvent("k"))
	b.eventually(`document.activeElement === document.querySelectorAll("#list tbody tr")[0].querySelector("a")`)
}

// A period of a chart is exact, also when another filter is added: the fields of its times have minutes alone.
func TestPageKeepsTheTimesOfAPeriod(t *testing.T) {
	t.Parallel()

	r := startList(t, newFakeProducers(), training(3)...)
	b := newBrowser(t, 1280, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?since=2026-03-01T09:00:30.5Z&until=2026-03-01T09:01:20Z"))
	b.waitForText("#total", "1 ended")
	b.eventually(`((form) => (form.elements.agent.value = "opencode", form.requestSubmit(), true))(document.querySelector("#filter"))`)
	b.eventually(`location.hash.includes("agent=opencode")`)
	b.waitForText("#total", "1 ended")
	b.eventually(`new URLSearchParams(location.hash.split("?")[1]).get("since") === "2026-03-01T09:00:30.5Z"`)
}

// Negative rewards are drawn as what they are.
func TestPageOfNegativeRewards(t *testing.T) {
	t.Parallel()

	all := training(8)
	for i := range all {
		all[i].Outcome, all[i].Reward = rollout.Completed, new(-0.25*float64(1+i%2))
	}

	r := startList(t, newFakeProducers(), all...)
	b := newBrowser(t, 1280, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/tasks/parse-dates-0"))
	b.eventually(`[...document.querySelectorAll("#task [aria-label^='Mean reward over time'] rect.bar")].some((bar) => Number(bar.getAttribute("height")) > 0)`)
	b.eventually(`[...document.querySelectorAll("#task rect")].every((bar) => Number(bar.getAttribute("y")) >= 0 && Number(bar.getAttribute("height")) >= 0)`)
}

// A researcher sees a task and a producer over time, and goes from a period to its rollouts.
func TestPageOverTime(t *testing.T) {
	t.Parallel()

	producers := newFakeProducers()
	producers.states["math"] = mathProducer()

	// another producer, whose id begins with that of the first
	other := rollout.NewResult("math-2-1-0")
	other.GroupID, other.Outcome, other.Attempts = "math-2-1", rollout.InfraFailed, training(1)[0].Attempts
	r := startList(t, producers, append(training(200), other)...)
	b := newBrowser(t, 1280, 900)

	b.run(chromedp.Navigate(r.url + "/web/#/producers/math"))
	b.waitForText("#producer .legend", "agent timeout")
	b.eventually(`document.querySelectorAll("#producer .curves figure").length === 14`)
	b.run(chromedp.EmulateViewport(1280, 1000))
	b.savePicture("training")
	b.requireReadable("producer")

	// the first period, by the mouse and by its row in the table
	b.eventually(`(document.querySelector("#producer details summary").click(), true)`)
	b.eventually(`((row) => {
		window.wanted = Number(row?.querySelector(".number").textContent);
		return wanted > 0;
	})(document.querySelector("#producer details tbody tr"))`)
	b.saveScreenshot("producer-table")
	b.eventually(`(document.querySelector("#producer .hit").dispatchEvent(new MouseEvent("click", {bubbles: true})), true)`)
	b.eventually(`location.hash.includes("producer_id=math") && location.hash.includes("since=") && location.hash.includes("until=")`)
	b.eventually(`document.querySelector("#total").textContent === wanted + " ended"`)

	// from a bar of those that ran to all that ran within its time, by weights or not
	b.run(chromedp.Navigate(r.url + "/web/#/producers/math"))

	hit := func(label string) {
		b.eventually(`((bar) => (bar?.dispatchEvent(new MouseEvent("click", {bubbles: true})), Boolean(bar)))(document.querySelector("#producer [aria-label^='` + label + `'] .hit"))`)
	}

	hit("With a slot over time")
	b.eventually(`location.hash.includes("ended_since=") && location.hash.includes("until=")`)
	b.waitForText("#chips", "ended from")
	b.run(chromedp.Navigate(r.url + "/web/#/producers/math"))
	hit("Passed by version")
	b.waitForText("#chips", "weights step-")
	b.waitForText("#total", "20 ended")

	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?task_id=parse-dates-1"))
	b.eventually(`((link) => (link?.click(), Boolean(link)))(document.querySelector("#list a[href='#/tasks/parse-dates-1']"))`)
	b.waitForText("#task", "parse-dates-1")
	b.waitForText("#task dl", "Passed")
	b.eventually(`document.querySelectorAll("#task .curves figure").length === 14`)
	b.run(setColorScheme("dark"))
	b.saveScreenshot("task-dark")
	b.requireReadable("task dark")
	b.run(chromedp.EmulateViewport(360, 740))
	b.eventually(`(document.querySelector("#task details summary").click(), true)`)
	b.requireReadable("task on a phone")
	b.run(chromedp.Navigate(r.url + "/web/#/tasks/none"))
	b.waitForText("#task", "No rollout has ended yet.")
}

// A researcher selects rollouts, compares two of them, runs and grades them again, and saves them as one file.
func TestPageOfSelectedRollouts(t *testing.T) {
	t.Parallel()
	r := startList(t, newFakeProducers(), training(8)...)
	r.record(mendingSession())

	b := newBrowser(t, 1280, 900)
	click := func(text string) {
		b.eventually(`((button) => (button?.click(), Boolean(button)))([...document.querySelectorAll("#selection button, #selection a, dialog[open] button")].find((e) => e.textContent === "` + text + `"))`)
	}
	choose := func(id string) {
		b.eventually(`((box) => (box?.click(), box?.checked))(document.querySelector("#list [aria-label='Select ` + id + `']"))`)
	}

	b.run(chromedp.Navigate(r.url + "/web/#/rollouts"))
	choose("math-0-0")
	choose("math-1-1")
	b.waitForText("#selection", "2 selected")
	b.saveScreenshot("selection")
	click("Run 2 rollouts again")
	click("Run")
	b.eventually(`document.querySelectorAll("#selection p a").length === 2`)
	require.Equal(t, 10, r.fake.count())

	// the one whose verifier failed may be graded, too
	click("Grade 2 rollouts again")
	b.waitForText("#selection div", "math-0-0: reward 1, was 0")
	b.waitForText("#selection div", "math-1-1: reward 1, was none")
	b.saveScreenshot("selection-graded")
	b.requireReadable("selection")

	click("Compare")
	b.eventually(`location.hash === "#/compare/math-1-1,math-0-0" || location.hash === "#/compare/math-0-0,math-1-1"`)
	b.waitForText("#compare", "turns are the same")
	b.saveScreenshot("compare")

	file := filepath.Join(t.TempDir(), "rollouts.html")
	status, _, page := r.do("GET", "/page?ids=math-0-0,math-1-1", "")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, os.WriteFile(file, []byte(page), 0o600))

	b.run(chromedp.Navigate("file://" + file))
	b.eventually(`document.querySelectorAll("#list tbody tr").length === 2`)
	b.saveScreenshot("selection-saved")
	b.eventually(`(document.querySelector("#list a").click(), true)`)
	b.waitForText("#rollout .turns", "Turn 1")

	for query, want := range map[string]int{
		"ids=none": http.StatusNotFound, "ids=": http.StatusUnprocessableEntity, "": http.StatusUnprocessableEntity, "ids=a%20b": http.StatusUnprocessableEntity,
	} {
		status, _, out := r.do("GET", "/page?"+query, "")
		require.Equal(t, want, status, "%s: %s", query, out)
	}
}

// The head of a rollout has its workflow, and the command and the button that start it again.
func TestPageStartsARolloutAgain(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb, func(o *envserver.Options) { o.TemporalUI = "http://127.0.0.1:8233/namespaces/default/workflows/" })
	body, err := json.Marshal(task("first", "do it", "task_id", "t", "group_id", "g"))
	require.NoError(t, err)

	status, _, out := r.do("POST", "/rollouts", string(body))
	require.Equal(t, http.StatusAccepted, status, out)

	b := newBrowser(t, 1280, 900)
	click := func(text string) {
		b.eventually(`((button) => (button?.click(), Boolean(button)))([...document.querySelectorAll("#rollout .head button, #rollout [role=status] button, dialog[open] button")].find((e) => e.textContent === "` + text + `" && !e.hidden))`)
	}

	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/first"))
	b.eventually(`document.querySelector("#rollout .head a")?.href === "http://127.0.0.1:8233/namespaces/default/workflows/rollout-first"`)
	click("Copy command")
	b.waitForText("#rollout [role=status] code", "rolloutd run --again first --server "+r.url)
	click("Grade again")
	b.waitForText("#rollout", "reward 1, was none")
	click("Make it the grade")
	b.waitForText("#rollout", "It is the rollout's grade now")
	b.saveScreenshot("head")
	b.requireReadable("head")
	click("Run again")
	click("Run")
	b.eventually(`location.hash.startsWith("#/rollouts/") && !location.hash.includes("first")`)
	b.waitForText("#rollout .badge", "completed")

	again, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.hash.split("/")[2].split("?")[0]`))
	require.NoError(t, err)

	spec, there := r.fake.spec(again)
	require.True(t, there)
	require.Equal(t, "do it", spec.Task.Instruction)
	require.Empty(t, spec.GroupID, "it is no member of the group")
}
