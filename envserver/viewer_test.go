//go:build !race

package envserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// startViewer starts a server without tokens with one rollout of a session, and opens the rollout's page.
func startViewer(t *testing.T, session []agentCall, query string) browser {
	t.Helper()
	r := start(t, withWeb)
	r.record(session)

	body, err := json.Marshal(task("mend-parser-7", "x", "task_id", "mend-parser",
		"verify", []string{"python -m pytest -q tests/test_parser.py", "python -m pytest -q"}))
	require.NoError(t, err)
	r.do("POST", "/rollouts", string(body))

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/mend-parser-7" + query))
	b.waitForText("#rollout .turns", "Turn 1")

	return b
}

// A rollout does not change the address when it has been left: neither before the next page opens, nor by late answers.
func TestPageLeavesARolloutThatLoads(t *testing.T) {
	t.Parallel()
	b := startViewer(t, mendingSession(), "?tab=timeline&turn=2")
	openList := func(then string) {
		b.eventually(`(location.hash = "#/rollouts", ` + then + `, true)`)
		b.waitForText("#list tbody", "mend-parser-7")
	}

	openList(`document.querySelector("#tab-verifier").click()`)

	b.holdAnswers("rollouts/mend-parser-7", `location.hash = "#/rollouts/mend-parser-7?tab=tokens&turn=3"`)
	openList("null")
	b.releaseAnswers()

	at, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("location.hash"))
	require.NoError(t, err)
	require.Equal(t, "#/rollouts", at)
}

// A reader sees each tool call as what it is, finds the failing command of the verifier, and searches.
func TestPageShowsATranscript(t *testing.T) {
	t.Parallel()
	b := startViewer(t, mendingSession(), "?tab=timeline")

	for _, part := range []string{
		"System prompt", "drops empty fields", "I'll look at the failing test first.", "1 failed, 3 passed", "def split(line):",
		"One test about empty lines fails",
	} {
		b.waitForText("#rollout .turns", part)
	}

	b.waitForText(".turn[data-turn='1'] .command", "python -m pytest -q tests/test_parser.py")
	b.waitForText(".turn[data-turn='2'] .call .chips", "1.2 s")
	b.waitForText(".turn[data-turn='2'] > header", "reward 0.25")
	b.waitForText(".turn[data-turn='2'] > header", "style <b> -1")
	b.waitForText(".turn[data-turn='3'] .line.removed", "if field:")
	b.waitForText(".turn[data-turn='4'] .call .title", "/code/notes.md")
	b.waitForText("#rollout .facts", "step-41, step-42")
	b.waitForText("#rollout .summary", "verify command 2 of 2 failed (exit 1)")
	b.waitForText("#rollout .summary", "AssertionError: split('') must be []")
	b.savePicture("transcript")

	b.run(chromedp.KeyEvent("3"))
	b.waitForText("#panel-verifier details[open]", "split('') must be []")
	b.eventually(`document.querySelectorAll("#panel-verifier details[open]").length === 1`)
	b.savePicture("verifier")

	b.run(chromedp.KeyEvent("jj"))
	b.eventually(`document.activeElement.dataset.turn === "2"`)
	b.run(chromedp.KeyEvent("/"))
	// the simulated key also types its character, which a keyboard's does not
	b.eventually(`(document.activeElement.value = "", document.activeElement.type === "search")`)
	b.run(chromedp.SendKeys("#rollout input[type=search]", "FIELDS.append"))
	b.waitForText("#rollout .search", "1 of ")
	b.eventually(`(document.activeElement.blur(), true)`)
	b.run(chromedp.KeyEvent("?"))
	b.eventually(`document.querySelector("dialog").open`)
}

// A search finds a text behind letters that have another length in lower case, and nothing of it is syntax.
func TestPageSearchesAnyText(t *testing.T) {
	t.Parallel()

	b := startViewer(t, []agentCall{{text: strings.Repeat("İ", 40) + " Needle[1]"}}, "?tab=timeline")
	b.run(chromedp.SendKeys("#rollout input[type=search]", "needle[1]"))
	b.waitForText("#rollout .search", "1 of 1")
}

// A reader sees which tokens were sampled and trained, why a sequence breaks, and the least likely token.
func TestPageShowsTokens(t *testing.T) {
	t.Parallel()
	b := startViewer(t, mendingSession(), "?tab=tokens")
	b.waitForText("#panel-tokens .break", "has the same text as the reply of turn 3, in other tokens")
	b.eventually(`[...document.querySelectorAll(".sides > div:first-child .differs")].map((e) => e.textContent).join() === " skipped"`)
	b.eventually(`[...document.querySelectorAll(".sides > div:last-child .differs")].map((e) => e.textContent).join() === " skippe,d"`)
	b.eventually(`document.querySelectorAll("#panel-tokens .token-text .token.trained").length > 300`)
	b.eventually(`document.querySelectorAll("#panel-tokens .token.prompt.trained").length === 0`)
	b.savePicture("break")
	b.run(chromedp.Click(`//button[text()="Jump to the least likely token"]`))
	b.waitForText("#panel-tokens .inspect", "weights step-41")
	b.waitForText("#panel-tokens .alternatives", "other")
	b.savePicture("tokens")
	b.eventually(`location.hash.endsWith("?tab=tokens&token=61")`)
	b.run(chromedp.Reload())
	b.waitForText("#panel-tokens .inspect", "Token 61")
	b.eventually(`(() => {
	  const choose = document.querySelector("#panel-tokens select");
	  choose.value = "1";
	  choose.dispatchEvent(new Event("change"));
	  return true;
	})()`)
	b.waitForText("#panel-tokens dl", "with the rollout")
	b.eventually(`document.querySelector("#panel-tokens .break") === null`)
	// a view that cannot be loaded is an error, and the one before stays
	b.eventually(`(() => {
	  window.fetch = async () => Response.json({ detail: "the store is away" }, { status: 503 });
	  const choose = document.querySelector("#panel-tokens select");
	  choose.value = "0";
	  choose.dispatchEvent(new Event("change"));
	  return true;
	})()`)
	b.waitForText("#alert", "the store is away")
	b.waitForText("#panel-tokens dl", "with the rollout")
	b.run(setColorScheme("dark"))
	b.requireReadable("tokens")
}

// What a model and its tools write is shown as text, whatever it is, and megabytes of it can be read to the end.
func TestPageShowsHostileTexts(t *testing.T) {
	t.Parallel()

	evil := `<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`
	arguments := func(v map[string]string) string {
		raw, err := json.Marshal(v)
		require.NoError(t, err)

		return string(raw)
	}
	session := []agentCall{
		{thinking: evil, text: "\u202egpj.exe \u001b[2J\u0000" + evil, tool: evil, arguments: arguments(map[string]string{"command": evil, evil: evil}), result: evil},
		{tool: "edit", arguments: arguments(map[string]string{"path": evil, "old_string": evil, "new_string": evil + "\n"}), result: strings.Repeat("line "+evil+"\n", 20_000) + "the very end"},
		{tool: "write", arguments: arguments(map[string]string{"path": evil + ".py", "content": evil}), result: "{not json"},
		{tool: "bash", arguments: `{"command": broken`, result: ""},
		{text: "done"},
	}
	b := startViewer(t, session, "")
	b.waitForText(".turn[data-turn='1']", "⟨U+202E⟩gpj.exe ␛[2J␀<script>")
	b.waitForText(".turn[data-turn='4']", `{"command": broken`)
	b.waitForText(".turn[data-turn='2']", " MiB are here. Load more")
	b.eventually(`(() => {
	  const output = document.querySelector(".turn[data-turn='2'] .output");
	  if (output.textContent.includes("the very end")) return true;
	  [...output.querySelectorAll("button:not(:disabled)")].find((e) => e.textContent.includes("Load more"))?.click();
	  return false;
	})()`)

	for _, tab := range []string{"timeline", "calls", "verifier", "tokens", "files", "logs", "data"} {
		b.openTab(tab)
	}

	b.waitForText("#panel-tokens", "sampled")
	b.eventually(`document.title === "mend-parser-7 – rolloutd" && document.querySelectorAll("main script, main img").length === 0`)
}

// What a result has of a verifier, a sandbox, an endpoint and a client is shown as text as well, in all tabs and in the
// list.
func TestPageShowsAHostileResult(t *testing.T) {
	t.Parallel()

	evil := "\u202e\u001b[2J<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
	r := start(t, withWeb)
	r.record([]agentCall{
		{tool: evil, arguments: `{"command":"x"}`, result: evil},
		{tool: evil, arguments: `{"command":"x"}`, result: evil},
		{tool: evil, arguments: `{"command":"x"}`, result: evil},
		{text: evil},
	})
	r.changeTurns(func(turn *rollout.Turn) {
		turn.ModelVersion, turn.Lineage, turn.Fallback = evil, evil, evil
		turn.Flaws, turn.FinishReason = []string{evil}, evil
	})

	edit := r.fake.edit
	r.fake.edit = func(res *rollout.Result) {
		edit(res)

		res.Outcome, res.Error, res.TaskID = rollout.VerifierFailed, &evil, evil
		res.Grading = rollout.Grading{Status: rollout.GradingStatus(evil), Why: evil, Unseen: []string{evil}, Notes: []string{evil}}
		res.Attempts = []rollout.Attempt{
			{Number: 1, Outcome: rollout.InfraFailed, Error: evil}, {Number: 2, Outcome: rollout.VerifierFailed},
		}
		res.Grading.Before = &rollout.EarlierGrade{Outcome: rollout.Completed, Reward: new(0.5), Why: evil}
		res.VerifyResults = []rollout.CommandResult{{Cmd: evil, ExitCode: 1, Stdout: evil, Stderr: evil}}
		res.SetupResults = res.VerifyResults
		res.Rewards = map[string]float64{evil: 1}
		res.WorkdirFiles = map[string]string{"/code/" + evil: evil}
		res.FilesExtra = []string{evil}
		res.AgentLogTail, res.VerifierStdout = evil, evil
	}
	r.begin("hostile")

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts"))
	b.waitForText("#list", "hostile")
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/hostile"))
	b.waitForText("#rollout .findings", "the same call 3 times in a row")
	b.waitForText("#rollout .summary", "⟨U+202E⟩␛[2J<script>")
	b.waitForText("#rollout .summary", "attempt 1: infra failed: ⟨U+202E⟩␛[2J<script>")

	for _, tab := range []string{"timeline", "calls", "verifier", "tokens", "files", "logs", "data"} {
		b.openTab(tab)
		b.eventually(`((panel) => panel?.innerText.length > 10 && !panel.innerText.includes("Loading"))(document.querySelector("#panel-` + tab + `"))`)
	}

	b.waitForText("#panel-verifier p.warn", "⟨U+202E⟩␛[2J<script>")
	b.waitForText("#panel-verifier dl", "reward 0.5, completed, ⟨U+202E⟩␛[2J<script>")
	b.waitForText("#panel-data", "owned")
	b.eventually(`(document.querySelectorAll("#panel-files details").forEach((e) => (e.open = true)), true)`)
	b.eventually(`document.title === "hostile – rolloutd" && document.querySelectorAll("main script, main img").length === 0`)
	b.eventually(`!/[\u202e\u001b]/.test(document.body.innerText)`)
}

// An agent that continues by token ids sends no messages. Its own record has the instruction, the calls and the results.
func TestPageShowsAnAgentOfTokenIDs(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	line, err := json.Marshal(rollout.Turn{
		Turn: 1, Kind: rollout.KindAgent, Delivered: true, Request: json.RawMessage(`{"prompt":[1,2]}`),
		Response: json.RawMessage(`{"choices":[{"text":"<think>hm</think>I look.<tool_call>{\"name\": \"terminal\"}</tool_call>"}]}`),
	})
	require.NoError(t, err)

	r.fake.lines = string(line) + "\n"
	r.begin("react")
	r.fake.mu.Lock()
	r.fake.messages["react"] = rollout.Transcript{Messages: []json.RawMessage{
		json.RawMessage(`{"info":{"role":"user","system":"call tools"},"parts":[{"type":"text","text":"find the file"}]}`),
		json.RawMessage(`{"info":{"role":"assistant"},"parts":[{"type":"text","text":"x"},{"type":"tool","callID":"c1","tool":"terminal","state":{"status":"error","input":{"command":"ls /code"},"output":"a.txt","error":"Exit code: 2","metadata":{"exit_code":2}}}]}`),
	}}
	r.fake.mu.Unlock()

	b := newBrowser(t, 1200, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/react"))

	for _, part := range []string{"call tools", "find the file", "hm", "I look.", "ls /code", "a.txt", "exit 2", "Tool call as the model wrote it"} {
		b.waitForText(".turn[data-turn='1']", part)
	}

	b.eventually(`!document.querySelector(".as-written").open`)
}

// scrollBack shows the beginning of each part of the page: the check of overlaps does not know what a scrolled box hides.
func (b browser) scrollBack() {
	b.eventually(`(document.querySelectorAll(".left, .right, .compared > section").forEach((s) => (s.scrollTop = 0)), scrollTo(0, 0), true)`)
}

// changeTurns changes the turns of every rollout's trace.
func (r *rig) changeTurns(change func(*rollout.Turn)) {
	r.t.Helper()

	var lines strings.Builder

	for line := range strings.Lines(r.fake.lines) {
		var turn rollout.Turn
		require.NoError(r.t, json.Unmarshal([]byte(line), &turn))
		change(&turn)

		changed, err := json.Marshal(turn)
		require.NoError(r.t, err)
		lines.Write(append(changed, '\n'))
	}

	r.fake.setTraceLines(lines.String())
}

// Each step of a task begins with how it ended, and its list leads to it.
func TestPageShowsSteps(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	r.record(mendingSession())
	r.changeTurns(func(turn *rollout.Turn) {
		if turn.Turn > 3 {
			turn.Lineage = "step3." + turn.Lineage
		}
	})

	edit := r.fake.edit
	r.fake.edit = func(res *rollout.Result) {
		edit(res)

		res.Steps = []rollout.StepResult{
			{Name: "find <b>it</b>", Attempt: 1, Outcome: rollout.Completed, Reward: new(1.0), Grading: rollout.Grading{Status: rollout.Graded, Notes: []string{"a note"}}, VerifierStdout: "found it", TestExitCode: new(3)},
			{Name: "mend", Attempt: 3, Outcome: rollout.AgentFailed, Reward: new(0.25), Grading: rollout.Grading{Status: rollout.Graded, Why: "no test"}, Rewards: map[string]float64{"style": 0.5}},
		}
	}
	r.begin("steps")

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/steps"))
	b.waitForText("#rollout .summary .steps li:first-child", "Step 1: find <b>it</b>")
	b.waitForText("#rollout .turns > .step[data-step='1']", "Step 2: mend")
	b.waitForText("#rollout .turns > .step[data-step='1']", "reward 0.25")
	b.eventually(`document.querySelector("[data-step='0']").nextElementSibling.dataset.turn === "1"`)
	b.eventually(`document.querySelector("[data-step='1']").nextElementSibling.dataset.turn === "4"`)
	b.waitForText(".turn[data-turn='4']", "drops empty fields")
	b.run(chromedp.Click(`//ol[@class="steps"]//button[contains(text(), "Step 2")]`))
	b.eventually(`Math.abs(document.querySelector("[data-step='1']").getBoundingClientRect().top) < 200`)
	b.openTab("verifier")
	b.waitForText("#panel-verifier section:nth-of-type(1) details[open]", "found it")
	b.waitForText("#panel-verifier section:nth-of-type(1)", "exit 3")
	b.waitForText("#panel-verifier section:nth-of-type(1) p.warn", "a note")
	b.waitForText("#panel-verifier section:nth-of-type(2) .step", "Step 2: mend")
	b.run(setColorScheme("dark"))
	b.scrollBack()
	b.savePicture("steps")
	b.requireReadable("steps")
}

// Calls of a subagent are one folded branch, wherever they stand; each summary begins a part, of which the last is open.
func TestPageShowsBranches(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	r.record(mendingSession())

	changes := map[int]func(*rollout.Turn){
		1: func(t *rollout.Turn) {
			t.Kind, t.Branch, t.Lineage = rollout.KindSubagent, rollout.BranchSubagent, "ses_2"
		},
		3: func(t *rollout.Turn) {
			t.Kind, t.Branch, t.Lineage = rollout.KindSubagent, rollout.BranchSubagent, "ses_2"
		},
		4: func(t *rollout.Turn) { t.Kind, t.Branch = rollout.KindSummary, rollout.BranchAuxiliary },
		5: func(t *rollout.Turn) { t.Branch = rollout.BranchCompacted },
		6: func(t *rollout.Turn) { t.Branch = rollout.BranchCompacted },
	}

	r.changeTurns(func(turn *rollout.Turn) {
		if change := changes[turn.Turn]; change != nil {
			change(turn)
		}
	})
	r.begin("branches")

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/branches"))
	b.waitForText(".branch[data-branch='subagent'] > summary", "The CSV parser")
	b.waitForText(".branch[data-branch='subagent'] > summary", "turns 1–3, 2 calls")
	b.eventually(`document.querySelectorAll(".branch[data-branch='subagent'] .turn").length === 2`)
	b.eventually(`[...document.querySelectorAll(".turns > .turn")].map((e) => e.dataset.turn).join() === "2"`)
	b.eventually(`[...document.querySelectorAll(".branch[open]")].map((e) => e.dataset.branch).join() === "compacted"`)
	b.eventually(`document.querySelectorAll(".branch[data-branch='compacted'] .turn").length === 2`)
	b.openTab("calls")
	b.run(chromedp.Click(`//div[@id="panel-calls"]//button[text()="3"]`))
	b.eventually(`document.querySelector(".branch[data-branch='subagent']").open && document.activeElement.dataset.turn === "3"`)
	b.scrollBack()
	b.savePicture("branches")
	b.requireReadable("branches")
}

// The files at the end are a tree. A file that the agent edited stands against what it was before; what cannot be known
// is said.
func TestPageShowsFiles(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	r.record(mendingSession())

	edit := r.fake.edit
	r.fake.edit = func(res *rollout.Result) {
		edit(res)

		after := "        elif char == ',' and not quoted:\n            fields.append(field)\n            field = ''\n        else:\n            field += char\n    fields.append(field)\n    return fields"
		res.WorkdirFiles = map[string]string{
			"/home/user/given.txt":            "as it ended",
			"/code/parser.py":                 "def split(line):\n" + after + "\n",
			"/code/deep/er/<b>x</b>.txt":      "<script>document.title='owned'</script>",
			"/code/__proto__/constructor.txt": strings.Repeat("é", 8000),
		}
		res.FilesExtra = []string{"/code/logo.png"}
	}

	body, err := json.Marshal(task("files", "x", "upload_files", map[string]string{"/home/user/given.txt": "<i>as given</i>"}))
	require.NoError(t, err)

	status, _, out := r.do("POST", "/rollouts", string(body))
	require.Equal(t, http.StatusAccepted, status, out)

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/files?tab=files"))
	b.waitForText("#panel-files .folder > summary", "code/")
	b.waitForText("#panel-files", "logo.png not collected")
	b.waitForText("#panel-files .folder .folder > summary", "__proto__/")
	b.waitForText("#panel-files h3 + ul", "/code/notes.md written in turn 4")
	b.waitForText("#panel-files", "changed")
	b.eventually(`(document.querySelectorAll("#panel-files .file-item").forEach((e) => (e.open = true)), true)`)
	b.waitForText("#panel-files", "Against the file before the first edit")
	b.waitForText("#panel-files", "Against the file as the task gave it")
	b.eventually(`["if field:", "<i>as given</i>"].every((part) => [...document.querySelectorAll("#panel-files .diff .line.removed")].some((line) => line.textContent.includes(part)))`)
	b.waitForText("#panel-files", "<script>document.title='owned'</script>")
	b.waitForText("#panel-files", "This is the beginning of the file.")
	b.eventually(`document.title === "files – rolloutd" && document.querySelectorAll("main script").length === 0`)
	b.run(setColorScheme("dark"))
	b.scrollBack()
	b.savePicture("files")
	b.requireReadable("files")
	b.run(chromedp.Click(`//div[@id="panel-files"]//button[text()="edited in turn 3"]`))
	b.eventually(`document.activeElement.dataset.turn === "3"`)
}

// A file of the image stands against what the agent read of it, where it read all of it before its tools changed it.
func TestPageShowsFilesAsTheAgentReadThem(t *testing.T) {
	t.Parallel()

	whole := "<path>/code/b.py</path>\n<type>file</type>\n<content>\n1: b = 1\n2: old = <b>\n\n(End of file - total 2 lines)\n</content>"
	r := start(t, withWeb)
	r.record([]agentCall{
		{tool: "bash", arguments: `{"command":"cat a.py"}`, result: "first\nsecond"},
		{tool: "read", arguments: `{"filePath":"/code/b.py"}`, result: whole},
		{tool: "read", arguments: `{"filePath":"/code/c.py"}`, result: strings.Replace(whole, "(End of file - total 2 lines)", "(Showing lines 1-2 of 9. Use offset=3 to continue.)", 1)},
		{tool: "write", arguments: `{"filePath":"/code/d.py","content":"d"}`, result: "ok"},
		{tool: "bash", arguments: `{"command":"cat d.py"}`, result: "d"},
		{tool: "bash", arguments: `{"command":"sed -i s/old/new/ *.py"}`, result: ""},
		{tool: "write", arguments: `{"filePath":"/code/a.py","content":"first\nthird\n"}`, result: "ok"},
		{text: "done"},
	})

	edit := r.fake.edit
	r.fake.edit = func(res *rollout.Result) {
		edit(res)

		res.WorkdirFiles = map[string]string{
			"/code/a.py": "first\nthird\n", "/code/b.py": "b = 1\nnew = <b>\n", "/code/c.py": "c", "/code/d.py": "d",
		}
	}
	r.begin("read")

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/read?tab=files"))
	b.waitForText("#panel-files", "d.py")
	b.eventually(`(document.querySelectorAll("#panel-files .file-item").forEach((e) => (e.open = true)), true)`)
	b.waitForText("#panel-files", "Against the file as the agent read it in turn 1:")
	b.waitForText("#panel-files", "Against the file as the agent read it in turn 2:")
	b.eventually(`[...document.querySelectorAll("#panel-files .diff .line.removed")].map((line) => line.textContent.trim()).join() === "-second,-old = <b>"`)
	b.waitForText("#panel-files", "The agent wrote the whole file: what was there before is not known.")
	b.eventually(`[...document.querySelectorAll("#panel-files .file-item")].find((f) => f.innerText.includes("c.py")).querySelector(".diff") === null`)
	b.waitForText("#panel-files", "are not kept as they were at the start")
}

// A flaw of the engine stands at its turn, in the list of what is unusual, which leads to it, and among the model calls.
func TestPageShowsAFlawAtItsTurn(t *testing.T) {
	t.Parallel()

	const flaw = `finish reason "tool_calls" without a tool call`

	r := start(t, withWeb)
	r.record(mendingSession())
	r.changeTurns(func(turn *rollout.Turn) {
		if turn.Turn == 4 {
			turn.Flaws = []string{flaw}
		}
	})
	r.begin("flawed")

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/flawed?tab=calls"))
	b.waitForText(".turn[data-turn='4'] > header .warn", flaw)
	b.eventually(`[...document.querySelectorAll(".turn > header")].filter((h) => h.textContent.includes("finish reason")).length === 1`)
	b.eventually(`[...document.querySelectorAll("#panel-calls tr.remarks")].find((row) => row.textContent.includes("finish reason"))?.previousSibling.firstChild.innerText === "4"`)
	b.run(chromedp.Click(`//ul[contains(@class, "findings")]/li[contains(., "finish reason")]/button`))
	b.eventually(`document.activeElement.dataset.turn === "4" && location.hash.includes("turn=4")`)
}

// A command of the verifier that fails without a word stands above the files that it names. Keys lead from one rollout of a
// list to the next one, and back to the list as it was.
func TestPageShowsWhatATestCompared(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	r.record(mendingSession())

	edit := r.fake.edit
	r.fake.edit = func(res *rollout.Result) {
		edit(res)

		res.VerifyResults = []rollout.CommandResult{{Cmd: `test "$(cat ./n.txt)" = 3`, ExitCode: 1}, {Cmd: "test -f out/<b>missing.py", ExitCode: 1}}
		res.WorkdirFiles = map[string]string{"/code/n.txt": "four <b>", "/code/m.txt": "other"}
	}

	for _, id := range []string{"one", "three", "two"} {
		r.begin(id)
	}

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts?id_prefix=t"))
	b.waitForText("#list", "two")
	b.run(chromedp.Navigate(r.url + "/web/#/rollouts/three?tab=verifier"))
	b.waitForText("#panel-verifier", "/code/n.txt at the end")
	b.waitForText("#panel-verifier", "four <b>")
	b.waitForText("#rollout .summary", `verify command 1 of 2 failed (exit 1): test "$(cat ./n.txt)" = 3, without output`)
	b.waitForText("#panel-verifier", "missing.py is not among the files at the end that the tab Files shows.")
	b.eventually(`!document.querySelector("#panel-verifier").innerText.includes("m.txt at the end")`)

	b.run(chromedp.KeyEvent("J"))
	b.eventually(`location.hash.startsWith("#/rollouts/two")`)
	b.waitForText("#panel-verifier", "/code/n.txt at the end")
	b.run(chromedp.KeyEvent("K"))
	b.eventually(`location.hash.startsWith("#/rollouts/three")`)
	b.run(chromedp.KeyEvent("g"))
	b.eventually(`location.hash === "#/rollouts?id_prefix=t"`)
}

// Two rollouts of a group stand side by side, with the first turn that differs marked.
func TestPageComparesRollouts(t *testing.T) {
	t.Parallel()
	r, groups := withGroups(t, withWeb)
	r.record(mendingSession())

	other := mendingSession()
	other[2].text = "I would rather write the parser anew."
	lines, _ := recorded(t, "The CSV parser in /code/parser.py drops empty fields. Mend it, so that tests/test_parser.py passes.", other)
	r.fake.tracesByID = map[string]string{"parsers-2": lines}

	status, _, out := r.do("POST", "/groups", strings.Replace(groupBody("parsers"), `"group_size":2`, `"group_size":3`, 1))
	require.Equal(t, http.StatusAccepted, status, out)
	groups.finish("parsers", new(1.0), nil, new(0.5))

	for _, id := range []string{"parsers-0", "parsers-1", "parsers-2"} {
		r.begin(id)
	}

	b := newBrowser(t, 1440, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/groups/parsers"))
	b.waitForText("#group", "Show side by side")
	b.run(chromedp.Click(`//button[text()="Show side by side"]`))
	b.waitForText("#group", "The first 2 turns are the same; they differ from turn 3 on.")
	b.waitForText(".compared > :last-child .first-difference", "I would rather write the parser anew.")
	b.eventually(`document.querySelectorAll(".first-difference").length === 2`)
	b.savePicture("compare")
	b.scrollBack()
	b.run(setColorScheme("dark"))
	b.requireReadable("group")
}
