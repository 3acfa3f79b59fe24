//go:build !race

package envserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/testkit/chromium"
)

// chromiumOfPages shows the pages of all tests.
var chromiumOfPages chromium.Browser

func TestMain(m *testing.M) {
	code := m.Run()

	chromiumOfPages.Close()
	os.Exit(code)
}

// browser is a tab of headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
	tab chromium.Tab
}

func newBrowser(t *testing.T, width, height int) browser {
	t.Helper()

	tab := chromiumOfPages.Open(t, width, height, patience)
	ctx, cancel := context.WithTimeout(tab.Ctx, 2*patience)
	t.Cleanup(cancel)

	return browser{t, ctx, tab}
}

func (b browser) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// eventually waits until a script returns true.
func (b browser) eventually(script string) {
	b.t.Helper()
	b.tab.Eventually(script)
}

// openTab opens a tab of a rollout's page. A script clicks it, because the summary above the tabs is redrawn and moves
// them: a click of the mouse, at the place where the tab was, may miss it.
func (b browser) openTab(name string) {
	b.t.Helper()
	b.eventually(`((tab) => {
		tab?.click();
		return tab?.getAttribute("aria-selected") === "true";
	})(document.querySelector("#tab-` + name + `"))`)
}

// waitForText waits until an element's text contains part.
func (b browser) waitForText(selector, part string) {
	b.t.Helper()

	want, err := json.Marshal(part)
	require.NoError(b.t, err)
	b.eventually(`(document.querySelector("` + selector + `")?.innerText ?? "").includes(` + string(want) + `)`)
}

// holdAnswers makes the answers to requests whose address has the part wait for releaseAnswers. The script then sends one.
func (b browser) holdAnswers(part, then string) {
	b.t.Helper()
	b.eventually(`(() => {
		const ask = window.fetch;
		const held = new Promise((resolve) => window.release = resolve);
		window.waiting = 0;
		window.answered = 0;
		window.fetch = async (url, options) => {
			if (!String(url).includes(` + chromium.Text(part) + `)) return ask(url, options);
			waiting++;
			const answer = await ask(url, { ...options, signal: undefined });
			await held;
			setTimeout(() => answered++, 100);
			return answer;
		};
		` + then + `;
		return true;
	})()`)
	b.eventually(`waiting > 0`)
}

// releaseAnswers returns when the page has had time for the answers that were held.
func (b browser) releaseAnswers() {
	b.t.Helper()
	b.eventually(`(release(), true)`)
	b.eventually(`answered >= waiting`)
}

// saveScreenshot saves a screenshot if ROLLOUTD_TEST_PICTURES names a folder.
func (b browser) saveScreenshot(name string) {
	b.t.Helper()

	if dir := os.Getenv("ROLLOUTD_TEST_PICTURES"); dir != "" {
		png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		require.NoError(b.t, err)
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
	}
}

// savePicture saves what the window shows, for the documents, if ROLLOUTD_TEST_PICTURES names a folder.
func (b browser) savePicture(name string) {
	b.t.Helper()

	if dir := os.Getenv("ROLLOUTD_TEST_PICTURES"); dir != "" {
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		require.NoError(b.t, err)
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
	}
}

const pageToken = "0123456789abcdef"

func startPage(t *testing.T) *rig {
	t.Helper()
	r := start(t, withWeb, func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken(pageToken)} })
	r.record(mendingSession())

	return r
}

// A user enters a token, starts a rollout with the keyboard, sees its result, finds it in the list and opens its page.
func TestPageInABrowser(t *testing.T) {
	t.Parallel()
	r := startPage(t)
	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate(r.url + "/"))
	b.eventually(`document.activeElement.id === "token-text"`)
	b.run(chromedp.SendKeys("#token-text", pageToken+"\r"))
	b.eventually(`document.title === "Run – rolloutd"`)
	b.waitForText("#run-fields", "instruction")
	b.run(chromedp.Navigate(r.url + "/web/#/playground"))
	b.waitForText("#name", "opencode_env")
	b.eventually(`document.title === "Playground – rolloutd"`)
	b.waitForText("#readme", "README")

	example := func(name, begins string) {
		b.eventually(`((choice) => {
			if (![...choice.options].some((o) => o.value === "` + name + `")) return false;
			choice.value = "` + name + `";
			choice.dispatchEvent(new Event("change"));
			return document.querySelector("#field-instruction").value.slice(0, 11) === "` + begins + `";
		})(document.querySelector("#example"))`)
	}
	example("fizzbuzz", "fizzbuzz.sh")
	example("", "")
	b.run(chromedp.SendKeys("#field-instruction", "do <b>it</b>"), chromedp.SendKeys("#field-endpoint", "vllm\r"))
	b.waitForText("#status", "completed, reward 0.5")
	b.waitForText("#raw", `"größe.txt": "<ok> & done"`)
	b.waitForText("#log", "run_rollout done")
	b.saveScreenshot("playground")
	b.run(chromedp.Click("#state"))
	b.waitForText("#status", "1 steps, 1 rollouts")
	b.run(chromedp.Click("#reset"))
	b.eventually(`document.querySelectorAll("#log li").length === 0`)

	// what is wrong is said at its field, also at a folded one
	b.eventually(`(document.querySelector("#fields [name='sandbox.memory']").value = "lots", document.querySelector("#step .primary").click(), true)`)
	b.eventually(`document.querySelector("#fields [aria-invalid]")?.name.startsWith("sandbox") && document.querySelector("#fields details[open] .field > .bad").textContent.includes("sandbox.memory: must be")`)
	b.saveScreenshot("playground-wrong")
	b.eventually(`(document.querySelector("#fields [name='sandbox.memory']").value = "") === ""`)

	b.run(chromedp.Navigate(r.url + "/web/#/rollouts"))
	b.waitForText("#list", "completed")
	b.saveScreenshot("rollouts-one")
	b.waitForText("#counts", "completed")
	// clicked by a script, because the list is redrawn repeatedly
	b.eventually(`(document.querySelector("#counts button").click(), true)`)
	b.eventually(`location.hash === "#/rollouts?outcome=completed"`)
	b.waitForText("#list", "completed")
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?outcome=aborted&min_reward=x"))
	b.waitForText("#alert", `min_reward: must be a number such as 0.5, got "x"`)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?outcome=aborted"))
	b.eventually(`document.querySelectorAll("#list a").length === 0 && document.querySelector("#filter [name=outcome]").value === "aborted"`)
	b.run(chromedp.Navigate(r.url+"/web/#/rollouts"), chromedp.SendKeys("#filter [name=q]", "do <b>\r"))
	b.eventually(`location.hash === "#/rollouts?q=do+%3Cb%3E"`)
	b.waitForText("#list .match", "do <b>it</b>")
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?q=missing"))
	b.eventually(`document.querySelectorAll("#list a").length === 0 && document.querySelector("#filter [name=q]").value === "missing"`)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts"))
	b.eventually(`(document.querySelector("#list a").click(), true)`)
	b.openTab("timeline")
	b.waitForText("#panel-timeline", "running agent")
	b.openTab("calls")
	b.waitForText("#panel-calls table", "tool_calls")
	b.openTab("files")
	b.waitForText("#panel-files", "größe.txt")
	b.openTab("logs")
	b.run(chromedp.Click(`//summary[contains(., "Log of the agent")]`))
	b.waitForText("#panel-logs", "agent of web-")
	kept, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`JSON.stringify(localStorage) + document.cookie`))
	require.NoError(t, err)
	require.Equal(t, "{}", kept, "the token is kept in the tab alone")
}

// A user fills the form with a task of a set, tests the endpoint, mends what is wrong at its field, runs the rollout, and
// changes it for another one.
func TestPageOfTheForm(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	for name, text := range map[string]string{
		"hello": "id: hello\ninstruction: Write <b>hello.py</b>.\nsetup: [\"echo 1\"]\nverify:\n  - test -f hello.py\n  - |\n    for i in 1 2; do\n      true\n    done\nlimits: {turns: 7}\n",
		"other": "id: other\ninstruction: Do it.\nverify: [\"true\"]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o600))
	}

	r := start(t, withWeb, func(o *envserver.Options) { o.TaskSets = map[string]string{"small": folder} })
	b := newBrowser(t, 1200, 900)
	set := func(selector, value string) {
		b.eventually(`((field) => {
			if (!field || (field.options && ![...field.options].some((o) => o.value === "` + value + `"))) return false;
			field.value = "` + value + `";
			field.dispatchEvent(new Event("change", {bubbles: true}));
			return true;
		})(document.querySelector("` + selector + `"))`)
	}
	value := func(name string) string { return `document.querySelector("#run-fields [name='` + name + `']").value` }

	b.run(chromedp.Navigate(r.url + "/web/#/tasks"))
	b.waitForText("#sets table", "other")
	b.saveScreenshot("tasks")
	b.run(chromedp.Click("#sets [aria-label='Run other']"))
	b.eventually(value("instruction") + ` === "Do it."`)

	set("#preset", "example:binary_search")
	b.eventually(value("instruction") + `.startsWith("Write binary_search.py") && location.hash === "#/run?example=binary_search"`)
	set("#preset", "task_set:small")
	b.eventually(`[...document.querySelectorAll("#preset-tasks option")].map((o) => o.value).join() === "hello,other"`)
	set("#preset-task", "hello")
	b.eventually(value("instruction") + ` === "Write <b>hello.py</b>."`)
	b.eventually(value("setup") + ` === "echo 1" && ` + value("limits.turns") + ` === "7"`)
	b.eventually(`JSON.parse(` + value("verify") + `)[1].includes("for i in 1 2")`)

	set("#run-endpoint", "vllm")
	b.waitForText("#run-fields", "unreachable (dial <tcp>)")
	b.run(chromedp.Click(`//section[@id="run"]//button[text()="Test"]`))
	b.waitForText("#run-fields", "answers, models: 2, its model is Qwen/Qwen3.5-4B")
	b.savePicture("run")

	set("#run-fields [name='sandbox.memory']", "lots")
	b.run(chromedp.Click("#run-form .primary"))
	b.eventually(`document.querySelector("#run-fields details[open] .field > .bad")?.textContent.includes("sandbox.memory: must be")`)
	set("#run-fields [name='sandbox.memory']", "2GiB")
	b.run(chromedp.Click("#run-form .primary"))
	b.eventually(`location.hash.startsWith("#/rollouts/")`)
	b.waitForText("#rollout .badge", "completed")

	b.run(chromedp.Click(`//section[@id="rollout"]//button[text()="Edit and run"]`))
	b.waitForText("#preset-note", "Filled like")
	b.eventually(`document.querySelector("#preset").selectedOptions[0].textContent === "another rollout"`)
	b.eventually(value("instruction") + ` === "Write <b>hello.py</b>." && ` + value("endpoint") + ` === "vllm" && ` + value("limits.turns") + ` === "7"`)
	b.eventually(value("sandbox.memory_mib") + ` === "2048" && ` + value("sandbox.memory") + ` === ""`)
	set("#run-fields [name='instruction']", "Do more.")
	b.run(chromedp.Click("#run-form .primary"))
	b.eventually(`location.hash.startsWith("#/rollouts/")`)
	b.waitForText("#rollout .badge", "completed")

	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()

	require.Len(t, r.fake.specs, 2)

	var specs []rollout.Spec
	for _, spec := range r.fake.specs {
		specs = append(specs, spec)
	}

	if specs[0].Task.Instruction == "Do more." {
		specs[0], specs[1] = specs[1], specs[0]
	}

	specs[1].ID, specs[1].Task.Instruction = specs[0].ID, specs[0].Task.Instruction
	require.Equal(t, specs[0], specs[1])
}

// awayAtFirst is an engine whose first list of rollouts fails, as while Temporal is away.
type awayAtFirst struct {
	*fake

	lists atomic.Int32
}

func (a *awayAtFirst) List(ctx context.Context, q rollout.Filter) (rollout.Page, error) {
	if a.lists.Add(1) == 1 {
		return rollout.Page{}, fault.New(fault.Unavailable, "Temporal does not answer")
	}

	return a.fake.List(ctx, q)
}

// An operator sees hosts, endpoints and what waits, and drains a host. The page goes on where the list of what waits fails.
func TestPageOfHosts(t *testing.T) {
	t.Parallel()

	r := start(t, withWeb, func(o *envserver.Options) {
		o.Rollouts = &awayAtFirst{fake: o.Rollouts.(*fake)}
		o.Fleet = &fakeHosts{host: fleet.Host{
			Name: "gpu-1", State: fleet.Running, Load: 1.5, CPUs: 8, Version: "v1 <b>", SeenAt: time.Unix(1_700_000_000, 0),
			Backends: map[string]fleet.Room{"local": {Slots: 8, Used: 3, Warm: 1}},
		}}
	})

	for _, id := range []string{"slow-1", "slow-2"} {
		body, err := json.Marshal(task(id, waits))
		require.NoError(t, err)
		r.do("POST", "/rollouts", string(body))
	}

	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/hosts"))
	b.waitForText("#host-list", "local: 3 of 8 used, 1 warm")
	b.waitForText("#host-list", "v1 <b>")
	b.waitForText("#endpoint-list", "not configured: OPENAI_API_KEY is not set")
	b.waitForText("#endpoint-list", "7 in flight, 2 waiting")
	b.waitForText("#endpoint-list", "new rollouts wait: no room <yet>")
	b.waitForText("#endpoint-list", "lost tool call: 3 replies")
	b.waitForText("#endpoint-list", "not known")
	b.waitForText("#endpoint-audits", "32 turns scored again, 1 marked. Left out: 4 older weights.")
	b.waitForText("#endpoint-audits", "0.3100")
	b.waitForText("#waiting-list", "vllm is <unreachable>")
	b.eventually(`document.querySelector("#waiting-list .number:not(th)").textContent === "2"`)
	b.saveScreenshot("hosts")
	b.eventually(`(document.querySelector("#host-list button").click(), true)`)
	b.waitForText("#host-list", "drained")
	b.waitForText("#host-list button", "Resume")
	b.run(chromedp.EmulateViewport(360, 740))
	b.requireReadable("hosts")
}

// An operator finds a group in the list, compares its rollouts, and aborts another one.
func TestPageOfGroups(t *testing.T) {
	t.Parallel()

	r, groups := withGroups(
		t,
		withWeb,
		func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken(pageToken)} },
	)
	for _, id := range []string{"running", "ended"} {
		status, _, out := r.do(
			"POST",
			"/groups",
			strings.Replace(groupBody(id), `"group_size":2`, `"group_size":3`, 1),
			"Authorization",
			"Bearer "+pageToken,
		)
		require.Equal(t, http.StatusAccepted, status, out)
	}

	groups.finish("ended", new(1.0), nil, new(0.5))
	groups.mu.Lock()
	groups.states["ended"].Members[2].Lost = []string{"ended-2"}
	groups.states["ended"].Members[1].Error = "the sandbox <was> lost\u202e"
	groups.mu.Unlock()

	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/groups"))
	b.run(chromedp.SendKeys("#token-text", pageToken+"\r"))

	for _, part := range []string{"Size", "3", "0.750", "partial", "running"} {
		b.waitForText("#group-list", part)
	}

	// the filter is in the address
	b.eventually(`((form) => (form.elements.status.value = "running", form.requestSubmit(), true))(document.querySelector("#group-filter"))`)
	b.eventually(`location.hash === "#/groups?status=running"`)
	b.run(chromedp.Navigate(r.url + "/web/#/groups"))
	b.eventually(`document.querySelector("#group-filter [name=status]").value === ""`)
	b.waitForText("#group-list", "ended")
	b.saveScreenshot("groups")
	b.eventually(
		`([...document.querySelectorAll("#group-list a")].find((a) => a.textContent === "ended").click(), true)`,
	)

	for _, part := range []string{
		"3, 3 ended, 2 with a reward", "mean 0.750, standard deviation 0.250", "1 of 2, pass@1 0.500, pass@2 1.000", "infra failed", "1.000", "-1.000", "ended-2", "the sandbox <was> lost⟨U+202E⟩",
	} {
		b.waitForText("#group", part)
	}

	b.saveScreenshot("group")
	b.run(chromedp.EmulateViewport(360, 740))
	b.requireReadable("group")
	b.run(chromedp.Navigate(r.url + "/web/#/groups/running"))
	b.waitForText("#group", "3, 0 ended, 0 with a reward")
	b.run(chromedp.Click(`//section[@id="group"]//button[text()="Abort"]`))
	b.waitForText("#group", "aborted")
}

// mathProducer has a value in every member.
func mathProducer() producer.State {
	return producer.State{
		ID:      "math",
		Name:    "algebra",
		Sink:    "trainer",
		Phase:   producer.Running,
		Waiting: "the trainer has enough batches",
		Step:    7,
		Bounds:  producer.Bounds{Concurrency: 32, MaxBatchesOffpolicy: 3, TotalSteps: 500},
		Cursor:  producer.Cursor{Number: 41},
		Counts: producer.Counts{
			Started:   40,
			Delivered: 30,
			Failed:    1,
			Filtered:  map[string]int{"too_long": 2},
			Marked:    4,
			Replaced:  5,
		},
		Running: []producer.RunningGroup{{
			ID:        "math-40",
			Cursor:    producer.Cursor{Number: 40},
			Left:      3,
			StartedAt: time.Unix(1_700_000_000, 0),
		}},
		Outbox:    []producer.Finished{{GroupID: "math-39", Rollouts: 8}},
		Evaluated: []producer.Evaluation{{Step: 5, Rollouts: 4, Sum: 2, Passed: 2}},
		StartedAt: time.Unix(1_700_000_000, 0),
	}
}

// producing returns a server with a producer and a failing delivery.
func producing(t *testing.T) (*rig, *fakeProducers) {
	t.Helper()

	f := newFakeProducers()
	f.states["math"] = mathProducer()
	failing := rollout.Delivery{
		Sink:    "trainer",
		GroupID: "math-39",
		State:   rollout.DeliveryPending,
		Tries:   2,
		Reason:  "connection <refused>",
	}

	return start(t, withWeb, func(o *envserver.Options) {
		o.Producers, o.Deliveries = f, &fakeDeliveries{all: []rollout.Delivery{failing}}
		o.Tokens = []envserver.Token{envserver.PlainToken(pageToken)}
	}), f
}

// The page of a producer shows its own deliveries, however many others its sink has, and no others: the id of another
// producer may begin with its own.
func TestDeliveriesOfAProducer(t *testing.T) {
	t.Parallel()

	f := newFakeProducers()
	f.states["math"] = mathProducer()

	all := make([]rollout.Delivery, 100)
	for i := range all {
		all[i] = rollout.Delivery{Sink: "trainer", GroupID: "math-2-" + strconv.Itoa(i), State: rollout.DeliveryPending}
	}

	all = append(all, rollout.Delivery{Sink: "trainer", GroupID: "math-38", State: rollout.DeliveryPending})
	deliveries := &fakeDeliveries{all: all}
	r := start(t, withWeb, func(o *envserver.Options) { o.Producers, o.Deliveries = f, deliveries })

	const note = `document.querySelector("#producer").innerText.includes("These are its first deliveries")`

	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/producers/math"))
	b.waitForText("#producer", "math-38")
	b.eventually("!" + note)
	b.eventually(`!document.querySelector("#producer").innerText.includes("math-2-")`)

	deliveries.mu.Lock()
	for i := range 100 {
		deliveries.all[i].GroupID = "math-" + strconv.Itoa(100+i)
	}
	deliveries.mu.Unlock()

	b.run(chromedp.Navigate(r.url + "/web/#/producers"))
	b.run(chromedp.Navigate(r.url + "/web/#/producers/math"))
	b.eventually(note)
}

// An operator finds the deliveries of a sink, and all of them.
func TestPageOfDeliveries(t *testing.T) {
	t.Parallel()

	all := make([]rollout.Delivery, 150)
	for i := range all {
		all[i] = rollout.Delivery{Sink: "trainer", GroupID: "math-" + strconv.Itoa(i), State: rollout.DeliveryDelivered}
	}

	all = append(all, rollout.Delivery{Sink: "disk", GroupID: "code-7", State: rollout.DeliverySkipped, Reason: "no\u202e tokens"})
	r := start(t, withWeb, func(o *envserver.Options) { o.Deliveries = &fakeDeliveries{all: all} })

	b := newBrowser(t, 1200, 900)
	rows := func(n int) {
		b.eventually(`document.querySelectorAll("#delivery-list tbody tr").length === ` + strconv.Itoa(n))
	}

	b.run(chromedp.Navigate(r.url + "/web/#/producers"))
	rows(100)
	b.eventually(`(document.querySelector("#deliveries-more").click(), true)`)
	rows(151)
	b.eventually(`document.querySelector("#deliveries-more").hidden`)

	b.eventually(`((form) => (form.elements.sink.value = "disk ", form.requestSubmit(), true))(document.querySelector("#delivery-filter"))`)
	rows(1)
	b.waitForText("#delivery-list", "no⟨U+202E⟩ tokens")
	b.eventually(`location.hash === "#/producers?sink=disk"`)
}

// An operator sees the producers and the pending deliveries, and pauses, resumes and aborts a producer.
func TestPageOfProducers(t *testing.T) {
	t.Parallel()
	r, f := producing(t)
	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/producers"))
	b.run(chromedp.SendKeys("#token-text", pageToken+"\r"))
	b.waitForText("#producer-list", "algebra")
	b.waitForText("#delivery-list", "connection <refused>")
	b.eventually(`document.querySelector("#delivery-list a").getAttribute("href") === "#/groups/math-39"`)
	b.run(chromedp.Navigate(r.url + "/web/#/producers?state=pending"))
	b.eventually(`document.querySelector("#delivery-filter [name=state]").value === "pending"`)
	b.waitForText("#delivery-list", "connection <refused>")
	b.saveScreenshot("producers")
	// clicked by a script, because the list is redrawn repeatedly
	b.eventually(`(document.querySelector("#producer-list a").click(), true)`)

	for _, part := range []string{
		"the trainer has enough batches", "7 of 500", "group 41", "40 started, 1 in flight, 1 to be delivered, 30 delivered",
		"3 (9.1 % of those that ended), 1 failed, 2 too long", "3 of 32", "math-40", "connection <refused>", "0.500",
	} {
		b.waitForText("#producer", part)
	}

	b.saveScreenshot("producer")

	for _, button := range []struct{ name, then string }{{"Pause", "paused"}, {"Resume", "running"}, {"Abort", "done aborted"}} {
		b.run(chromedp.Click(`//button[text()="` + button.name + `"]`))
		b.waitForText("#producer dl", button.then)
	}

	b.run(chromedp.EmulateViewport(360, 740))

	for page, ready := range map[string]string{"producers": "#delivery-list td", "producers/math": "#producer td"} {
		b.run(chromedp.Navigate(r.url + "/web/#/" + page))
		b.eventually(`document.querySelector("` + ready + `")?.checkVisibility() ?? false`)
		b.requireReadable(page)
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	require.Equal(t, []producer.Change{{Paused: new(true)}, {Paused: new(false)}}, f.changes)
}

// The page follows a running rollout to its end without a reload, and can abort it.
func TestPageFollowsARollout(t *testing.T) {
	t.Parallel()
	r := startPage(t)
	r.fake.toolCall = []rollout.ToolEvent{
		{Tool: "terminal", Input: json.RawMessage(`{"command":"cat <b>"}`)},
		{Tool: "terminal", Output: "<script>no</script>", Error: "Exit code: 1", Status: "error"},
	}
	r.fake.calls, r.fake.log, r.fake.lines = 7, nil, "\n"
	body, err := json.Marshal(task("slow", waits))
	require.NoError(t, err)
	r.do("POST", "/rollouts", string(body), "Authorization", "Bearer "+pageToken)

	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts"))
	b.run(chromedp.SendKeys("#token-text", pageToken+"\r"))
	b.waitForText("#list", "waiting: vllm is <unreachable>")
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/slow"))
	b.waitForText("#rollout", "running agent")

	for _, part := range []string{"terminal", "cat <b>", "failed", "<script>no</script>", "Exit code: 1", "Turn 7"} {
		b.waitForText("#rollout .turns", part)
	}

	// a server that starts again ends the stream: the page goes on after the last event
	r.http.CloseClientConnections()
	b.saveScreenshot("running")
	b.run(chromedp.Click(`//button[text()="Abort"]`))
	b.waitForText("#rollout .badge", "aborted")
	b.waitForText("#rollout .left", "No model call was recorded.")
	b.eventually(`document.querySelector("#alert").hidden`)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/none"))
	b.waitForText("#alert", "no rollout none")
}

// overlaps lists elements that overlap or extend beyond the window. The browser does not lay out the turns far from the
// window, so that their elements would have no true place: all are laid out first.
const overlaps = `(() => {
  for (const turn of document.querySelectorAll(".turn")) turn.style.contentVisibility = "visible";
  const seen = [...document.querySelectorAll("h1,h2,a,label,input,select,textarea,button,summary,pre,small,td,dt,dd,.time")].filter((e) => e.checkVisibility());
  const box = new Map(seen.map((e) => [e, e.getBoundingClientRect()]));
  const bad = seen.filter((e) => box.get(e).right > innerWidth + 1 && !e.closest(".wide")).map((e) => "beyond the edge: " + e.outerHTML.slice(0, 80));
  for (const a of seen) for (const b of seen) {
    const [p, q] = [box.get(a), box.get(b)];
    if (a === b || a.contains(b) || b.contains(a)) continue;
    if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1)
      bad.push(a.outerHTML.slice(0, 80) + " over " + b.outerHTML.slice(0, 80));
  }
  if (document.documentElement.scrollWidth > innerWidth) bad.push("the page scrolls sideways");
  return bad;
})()`

// faint lists texts whose contrast with their background is less than 4.5 to 1.
const faint = `(() => {
  const light = (c) => c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const rgb = (c) => c.match(/[\d.]+/g).map(Number);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  return [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).filter((e) => {
    const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(behind(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
  }).map((e) => e.outerHTML.slice(0, 80));
})()`

// The page is readable on a phone, in the light and the dark scheme.
func TestPageOnAPhone(t *testing.T) {
	t.Parallel()
	r := startPage(t)
	body, err := json.Marshal(
		task("a-rollout-whose-name-is-long-enough-to-be-wider-than-a-phone", "x", "task_id", "a-task-with-a-long-name"),
	)
	require.NoError(t, err)
	r.do("POST", "/rollouts", string(body), "Authorization", "Bearer "+pageToken)

	b := newBrowser(t, 360, 740)
	b.run(
		chromedp.EmulateViewport(360, 740),
		chromedp.Navigate(r.url+"/web/#/playground"),
		chromedp.SendKeys("#token-text", pageToken+"\r"),
	)
	b.waitForText("#name", "opencode_env")
	b.run(chromedp.Click("#fields details summary"))

	// the rest of the test is about the last one
	for _, page := range [][2]string{
		{"playground", "#fields"},
		{"run", "#run-endpoint"},
		{"rollouts", "#list a"},
		{"rollouts/a-rollout-whose-name-is-long-enough-to-be-wider-than-a-phone", "#rollout .call"},
	} {
		name, ready := page[0], page[1]
		b.run(chromedp.Navigate(r.url+"/web/#/"+name), chromedp.WaitVisible(ready))

		for _, scheme := range []string{"light", "dark"} {
			b.run(setColorScheme(scheme))
			b.saveScreenshot("phone-" + scheme + "-" + strings.ReplaceAll(name, "/", "-"))
			b.requireReadable(name + " " + scheme)
		}
	}

	b.run(chromedp.Click("#rollout .swap"))
	b.waitForText("#rollout .swap", "Show the transcript")

	for _, tab := range []string{"timeline", "calls", "verifier", "tokens", "files", "logs", "data"} {
		b.openTab(tab)
		b.eventually(`document.querySelector("#panel-` + tab + `")?.innerText.length > 10 && !document.querySelector("#panel-` + tab + `").innerText.includes("Loading")`)
		b.requireReadable(tab)
	}
}

// requireReadable checks that all elements of the page are visible and readable.
func (b browser) requireReadable(page string) {
	b.t.Helper()

	for what, script := range map[string]string{"lie wrong": overlaps, "cannot be read": faint} {
		bad, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](script))
		require.NoError(b.t, err)
		require.Emptyf(b.t, bad, "%s on page %q", what, page)
	}
}

// setColorScheme sets the color scheme that the browser reports.
func setColorScheme(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})

		return err
	})
}
