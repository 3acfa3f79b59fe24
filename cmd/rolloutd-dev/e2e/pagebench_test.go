package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/testkit/chromium"
)

// BenchmarkPage measures what a reader of the page waits for: a list of 10,000 rollouts, its filters and its search, and
// a rollout of 500 turns, 100,000 events and 2 million tokens in its calls, and the next tool call of one that runs; and
// what an idle page costs the server.
func BenchmarkPage(b *testing.B) {
	const (
		rollouts = 10_000
		opens    = 5
		list     = "#/rollouts?sort=-started_at" // of the server's index; Temporal does not know these rollouts
		idle     = 20 * time.Second
	)

	srv := startDev(b, devOptions{script: twoCalls})
	srv.stop(b)
	fillStore(b, filepath.Join(srv.data, "store"), rollouts)
	srv = srv.restart(b)
	require.Eventually(b, func() bool {
		resp, err := http.Get(srv.url + "/rollouts?limit=1&q=needle" + fmt.Sprint(rollouts-1))
		if err != nil {
			return false
		}
		defer resp.Body.Close()

		var found struct{ Rollouts []json.RawMessage }

		return json.NewDecoder(resp.Body).Decode(&found) == nil && len(found.Rollouts) == 1
	}, 10*time.Minute, time.Second)

	tab := chromium.Open(b, 1440, 1000, time.Minute)
	measure := func(script string) float64 {
		b.Helper()

		ms, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[float64](painted+script, chromedp.EvalAwaitPromise))
		require.NoError(b, err)

		return ms
	}
	report := func(name, place, script string) {
		var sum float64

		for range opens {
			tab.Run(chromedp.Navigate("about:blank"), chromedp.Navigate(srv.url+"/web/"+place))

			sum += measure(script)
		}

		b.ReportMetric(sum/opens, name)
	}

	const listed = `document.querySelectorAll("#list tbody tr").length > 9`

	report("ms/list", list, `painted(0, () => `+listed+`)`)
	report("ms/filter", list, `painted(0, () => `+listed+`).then(() => {
		const form = document.querySelector("#filter"), from = performance.now();
		form.elements.task_id.value = "task-7";
		form.requestSubmit();
		return painted(from, () => document.querySelectorAll("#list tbody tr").length === 2);
	})`)
	report("ms/search", list, `painted(0, () => `+listed+`).then(() => {
		const form = document.querySelector("#filter"), from = performance.now();
		form.elements.q.value = "needle77";
		form.requestSubmit();
		return painted(from, () => document.querySelectorAll("#list tbody tr").length === 1);
	})`)

	begin := time.Now()

	tab.Run(chromedp.Navigate(srv.url + "/web/#/rollouts/long"))
	measure(`painted(0, () => document.querySelector("[data-turn='500']"))`)
	b.Logf("the long rollout, for the first time: %s", time.Since(begin))
	report("ms/long-first", "#/rollouts/long", `painted(0, () => document.querySelector("[data-turn='1']"))`)
	report("ms/long-all", "#/rollouts/long", `painted(0, () => document.querySelector("[data-turn='500']"))`)
	b.ReportMetric(measure(frames), "frames/s")

	resp, err := http.Post(srv.url+"/rollouts", "application/json", strings.NewReader(
		`{"rollout_id": "live", "instruction": "a slow task", "endpoint": "scripted", "agent": "react", "no_verify": true}`))
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	require.Equal(b, http.StatusAccepted, resp.StatusCode)
	tab.Run(chromedp.Navigate("about:blank"), chromedp.Navigate(srv.url+"/web/#/rollouts/live"))
	measure(`painted(0, () => document.querySelectorAll(".call").length > 0)`)
	b.ReportMetric(measure(secondCall), "ms/tool-call")

	for _, place := range []string{"about:blank", srv.url + "/web/" + list, srv.url + "/web/#/rollouts/long"} {
		tab.Run(chromedp.Navigate("about:blank"), chromedp.Navigate(place))
		<-time.After(5 * time.Second)

		before := processCPU(b, srv.cmd.Process.Pid)

		<-time.After(idle)
		b.Logf("CPU of the server, open page %s: %.2f %%", place, 100*(processCPU(b, srv.cmd.Process.Pid)-before)/idle.Seconds())
	}
}

// painted is a function that returns how long after a time something has been painted, in milliseconds.
const painted = `globalThis.painted ??= (from, is) => new Promise((done) => {
	const look = () => is() ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - from))) : requestAnimationFrame(look);
	look();
});
`

// twoCalls calls two tools. The page is opened while the first one runs.
const twoCalls = `
- match: a slow task
  hermes: true
  turns:
    - {tool_calls: [{name: terminal, arguments: {command: sleep 10}}]}
    - {tool_calls: [{name: terminal, arguments: {command: "true"}}]}
    - {text: Done.}
`

// secondCall returns how long after its begin the second tool call has been painted.
const secondCall = `painted(0, () => document.querySelectorAll(".call").length > 1).then(async () => {
	const shown = Date.now();
	const events = await (await fetch("../rollouts/live/events")).text();
	const starts = [...events.matchAll(/^event: tool_start\ndata: (.*)$/mg)].map(([, data]) => Date.parse(JSON.parse(data).at));
	return shown - starts[1];
})`

// frames scrolls the transcript for three seconds, and returns the frames of a second.
const frames = `new Promise((done) => {
	const box = document.querySelector(".left");
	const pane = box.scrollHeight > box.clientHeight + 10 ? box : document.scrollingElement;
	const from = performance.now();
	let n = 0;
	const step = () => {
		n++;
		pane.scrollTop += 120;
		const now = performance.now();
		if (now - from < 3000) requestAnimationFrame(step); else done((1000 * n) / (now - from));
	};
	requestAnimationFrame(step);
})`

// fillStore stores what rollouts leave: so many small ones, and a long one.
func fillStore(b *testing.B, folder string, rollouts int) {
	b.Helper()

	s, err := store.Open(b.Context(), folder)
	require.NoError(b, err)

	random := rand.New(rand.NewPCG(1, 2))
	words := func(n int) string {
		var text strings.Builder
		for range n {
			fmt.Fprintf(&text, "w%d ", random.IntN(5000))
		}

		return text.String()
	}

	for i := range rollouts {
		turn := longTurn(b, 1, []map[string]any{{"role": "user", "content": words(300) + fmt.Sprint("needle", i)}}, map[string]any{"role": "assistant", "content": words(50)}, 100)
		endRollout(b, s, fmt.Sprint("r", i), i, turn, "")
	}

	var (
		messages = []map[string]any{{"role": "user", "content": "a long task"}}
		turns    strings.Builder
		events   strings.Builder
	)

	for n := 1; n <= 500; n++ {
		id := fmt.Sprint("call_", n)
		reply := map[string]any{"role": "assistant", "content": words(20), "tool_calls": []any{map[string]any{
			"id": id, "type": "function", "function": map[string]string{"name": "bash", "arguments": `{"command":"make test"}`},
		}}}

		turns.WriteString(longTurn(b, n, messages, reply, 4000))

		messages = append(messages, reply, map[string]any{"role": "tool", "tool_call_id": id, "content": words(20)})

		for k := range 200 {
			raw, err := json.Marshal(rollout.ToolEvent{Stamp: rollout.Stamp{Attempt: 1}, CallID: id, Tool: "bash", Output: words(5)})
			require.NoError(b, err)
			line, err := json.Marshal(rollout.Event{ID: rollout.EventID(1, int64(200*(n-1)+k+1)), Kind: rollout.EventToolOutput, Data: raw})
			require.NoError(b, err)
			events.Write(append(line, '\n'))
		}
	}

	endRollout(b, s, "long", rollouts, turns.String(), events.String())
	require.NoError(b, s.Close())
}

// longTurn returns a line of a trace, whose prompt has so many tokens.
func longTurn(b *testing.B, n int, messages []map[string]any, reply map[string]any, tokens int) string {
	b.Helper()

	request, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	require.NoError(b, err)
	response, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": reply}}})
	require.NoError(b, err)

	prompt := make([]int32, tokens)
	for i := range prompt {
		prompt[i] = int32(i % 50_000)
	}

	line, err := json.Marshal(rollout.Turn{
		Turn: n, API: "chat/completions", Kind: rollout.KindAgent, Lineage: "ses", Branch: rollout.BranchRoot, Delivered: true, Train: true,
		PromptTokenIDs: prompt, CompletionTokenIDs: []int32{1, 2, 3}, PerTokenLogps: []float64{-0.1, -0.2, -0.3},
		Request: request, Response: response, FinishReason: "stop",
	})
	require.NoError(b, err)

	return string(line) + "\n"
}

func endRollout(b *testing.B, s *store.Store, id string, n int, trace, events string) {
	b.Helper()

	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
	r := rollout.NewResult(id)
	r.Outcome, r.TaskID, r.Reward = rollout.Completed, fmt.Sprint("task-", n/2), new(float64(n%3)/2)
	r.Attempts = []rollout.Attempt{{Number: 1, Turns: 1, StartedAt: begin, EndedAt: begin.Add(time.Minute), Outcome: rollout.Completed}}

	_, err := s.Put(b.Context(), store.AttemptKey(id, 1, store.Trace), strings.NewReader(trace))
	require.NoError(b, err)

	if events != "" {
		_, err = s.Put(b.Context(), store.AttemptKey(id, 1, store.Events), strings.NewReader(events))
		require.NoError(b, err)
	}

	require.NoError(b, s.PutJSON(b.Context(), store.ResultKey(id), r))
	require.NoError(b, s.PutJSON(b.Context(), store.HeadKey(id), r.Head()))
}
