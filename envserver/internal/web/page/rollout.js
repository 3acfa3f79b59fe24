// One rollout: on the left its conversation, on the right tabs with everything else.
import { abort, again as startAgain, button, gradable, regrade, sure } from "./acts.js";
import { ask, download, events, get } from "./api.js";
import { calls } from "./calls.js";
import { painter } from "./code.js";
import { $, complain, dollars, el, facts, pretty, reveal, seconds } from "./dom.js";
import { files } from "./files.js";
import { groupLink } from "./groups.js";
import { outcome, rolloutLink, taskLink } from "./columns.js";
import { place as savedPlace } from "./saved.js";
import { search } from "./search.js";
import { stepList } from "./steps.js";
import { tabs } from "./tabs.js";
import { block, visible } from "./text.js";
import { timeline } from "./timeline.js";
import { tokens } from "./tokens.js";
import { transcript } from "./transcript.js";
import { failedTest, verifier } from "./verifier.js";

let pageLeft = new AbortController();

export function stop() {
  pageLeft.abort();
}

/** rollout shows one rollout; query has the tab, the turn and the token to open. */
export async function rollout(id, query) {
  stop();
  pageLeft = new AbortController();
  const { signal } = pageLeft;
  const path = "rollouts/" + encodeURIComponent(id);
  const place = new URLSearchParams(query);
  $("rollout").replaceChildren(); // what is left of another one would answer to clicks
  let state = await get(path);
  if (signal.aborted) return; // another page is open
  let head = null; // of the result, when the rollout has ended
  const usual = state.phase === "done" && !(state.outcome === "completed" && state.reward >= 1) ? "verifier" : "timeline"; // the tab

  // The buttons are not redrawn, so that no click is lost.
  const fail = (error) => complain(error.message);
  const said = el("p", { role: "status" });
  const acts = {
    abort: button("Abort", () => abort(id), fail, { hidden: true }),
    again: button("Run again", async () => {
      if (await sure("Start a rollout with the same task, agent, model and limits?", "Run")) location.hash = "#/rollouts/" + (await startAgain(id)).rollout_id;
    }, fail, { hidden: true }),
    regrade: button("Grade again", () => gradeAgain(state, said, fail), fail, { hidden: true }),
    like: button("Edit and run", () => (location.hash = "#/run?like=" + encodeURIComponent(id)), fail, { hidden: Boolean(savedPlace) }),
    command: button("Copy command", async () => {
      const command = `rolloutd run --again ${id} --server ${new URL("..", location.href).href.replace(/\/$/, "")}`;
      const copied = await navigator.clipboard?.writeText(command).then(() => true, () => false);
      said.replaceChildren(copied ? "Copied: " : "Copy this: ", el("code", {}, command));
    }, fail, { hidden: Boolean(savedPlace) }),
  };
  const links = el("span", { class: "row" });
  const summary = el("div", { class: "summary" });
  const log = el("ol", { class: "log" });
  const left = transcript(path, { onTurns: () => redraw("timeline", "calls"), onShow: (turn) => openTokens({ turn }), onTurn: (turn) => openTurn(turn) });
  const truth = tokens(path, () => head?.untrained, (changes) => remember(changes));

  const address = "#/rollouts/" + encodeURIComponent(id);
  const remember = (changes) => {
    // A new address is there before its page.
    if (signal.aborted || location.hash.split("?")[0] !== address) return;
    for (const [key, value] of Object.entries(changes)) value === undefined ? place.delete(key) : place.set(key, value);
    history.replaceState(null, "", address + (place.size ? "?" + place : ""));
  };
  // turnTo shows one side where the window has room for one only.
  const turnTo = (details) => {
    panes.classList.toggle("right-only", details);
    swap.textContent = details ? "Show the transcript" : "Show the details";
  };
  const openTurn = (turn) => {
    turnTo(false);
    remember({ turn });
    const node = left.node.querySelector(`[data-turn="${Number(turn)}"]`);
    reveal(node, left.node);
    node?.scrollIntoView({ block: "start" });
    node?.focus({ preventScroll: true });
  };
  const openStep = (n) => {
    turnTo(false);
    left.node.querySelector(`[data-step="${n}"]`)?.scrollIntoView({ block: "start" });
  };
  const openTokens = (what) => {
    turnTo(true);
    if (head && !episode()) truth.show(what);
    right.open("tokens");
  };
  // the sequence and the token of the address
  const token = () => ({ sequence: Number(place.get("sequence") ?? 0), at: place.has("token") ? Number(place.get("token")) : undefined });
  const episode = () => head?.agent === "interactive";
  const ofClient = () => el("p", {}, "The model of an episode is its client's. Its calls do not pass the gateway, so that this server has neither them nor their tokens.");
  let loading = null; // the whole result
  const whole = () => (loading ??= get(path + "/result"));
  const later = (make) => () => (head ? make() : el("p", { class: "quiet" }, "Known when the rollout has ended."));
  const right = tabs([
    ["timeline", "Timeline", () => timeline(state, left.turns, left.times, openTurn, episode())],
    ["calls", "Model calls", later(() => (episode() ? ofClient() : calls(left.turns, openTurn)))],
    ["verifier", "Verifier", later(() => verifier(head, whole))],
    ["tokens", "Tokens", later(() => (episode() ? ofClient() : truth.node))],
    ["files", "Files", later(() => files(path, left.called, openTurn))],
    ["logs", "Logs", () => el("div", {}, head ? logs(path) : null, el("h3", {}, "Events"), log)],
    ["data", "Data", later(() => data(path, head))],
  ], (tab) => {
    remember({ tab: tab === usual ? undefined : tab });
    if (tab === "tokens" && head && !episode() && !truth.asked()) truth.show(token());
  });
  const redraw = (...names) => names.forEach((name) => right.redraw(name));

  const swap = el("button", { type: "button", class: "swap", click: () => turnTo(!panes.classList.contains("right-only")) }, "Show the details");
  const panes = el("div", { class: "panes" }, el("div", { class: "left" }, search(left.node), left.node), el("aside", { class: "right", "aria-label": "Details" }, right.node));
  $("rollout").replaceChildren(el("div", { class: "head" }, el("h2", { id: "rollout-title" }, id), links, Object.values(acts), swap), said, summary, panes);
  temporal(id, links);

  const draw = () => {
    acts.abort.hidden = state.phase === "done";
    acts.again.hidden = state.phase !== "done" || episode() || Boolean(savedPlace);
    acts.command.hidden = acts.like.hidden = episode() || Boolean(savedPlace);
    acts.regrade.hidden = !gradable(state) || Boolean(savedPlace);
    summary.replaceChildren(...standing(state, head, left), stepList(head?.steps ?? [], openStep) ?? "");
  };
  const refresh = async () => {
    state = await get(path);
    draw();
    redraw("timeline");
  };
  const finish = async () => {
    head = await get(path + "/result?part=head");
    draw();
    redraw("verifier", "calls", "tokens", "logs", "data");
    await left.load(head.steps, head.turn_rewards, episode()).catch((error) => left.fail(error.status === 404 ? "No model call was recorded." : error.message));
    draw();
    redraw("files");
    if (right.current() === "tokens") openTokens(token());
    if (place.has("turn")) openTurn(place.get("turn"));
  };

  draw();
  turnTo(place.has("tab") && !place.has("turn"));
  right.open(place.get("tab") ?? usual);
  siblings(state, summary, signal);
  const loaded = state.phase === "done" ? finish() : null;

  // Redraw at most twice a second, since events may come fast.
  let drawing = false;
  let changed = false;
  const again = async () => {
    changed = true;
    if (drawing) return;
    drawing = true;
    while (changed && !signal.aborted) {
      changed = false;
      await refresh().catch((error) => complain(error.message));
      await new Promise((over) => setTimeout(over, 500));
    }
    drawing = false;
  };
  let after = ""; // the last event
  const follow = (onOpen) => events(path + "/events", { signal, after, onOpen }, (kind, event, id) => {
    after = id ?? after;
    left.add(kind, event);
    logEvent(log, kind, event);
    if (!loaded) again();
  });
  await Promise.all([loaded, loaded ? follow() : persist(follow, async () => (state = await get(path)).phase === "done", signal)]);
  if (signal.aborted) return;
  if (!loaded) await finish();
  redraw("timeline");
}

const reconnect = 2000; // ms from the end of a stream of a rollout that runs to the next one

// persist follows a rollout until it has ended: a server that starts again ends the stream, and may not answer for a while.
async function persist(follow, over, signal) {
  for (let lost = false; !signal.aborted;) {
    try {
      await follow(() => lost && complain(""));
      lost = false;
      if (await over()) return;
    } catch (error) {
      if (signal.aborted || error.status < 500) throw error; // a refusal
      complain("The connection to the server was lost. The page goes on when it is there again.");
      lost = true;
    }
    await new Promise((wait) => setTimeout(wait, reconnect));
  }
}

// temporal adds a link to the rollout's workflow, if the server knows a UI of Temporal.
async function temporal(id, links) {
  const { temporal_ui: ui } = savedPlace ? {} : await get("web/settings").catch(() => ({}));
  if (ui && /^https?:/.test(ui)) links.append(el("a", { href: ui + encodeURIComponent("rollout-" + id), target: "_blank", rel: "noopener noreferrer" }, "Workflow"));
}

// gradeAgain shows another grade of the rollout, and offers to make it its own.
async function gradeAgain(state, said, fail) {
  said.replaceChildren("The verifier runs …");
  const id = state.rollout_id;
  const grade = await regrade(id).catch((error) => said.replaceChildren() ?? Promise.reject(error));
  const same = (grade.reward ?? null) === (state.reward ?? null);
  const text = grade.error || `Graded again: reward ${grade.reward ?? "none"}${same ? ", as before" : `, was ${state.reward ?? "none"}`}. ${grade.grading?.why ?? ""}`;
  const apply = button("Make it the grade", async () => {
    const applied = await regrade(id, true);
    said.replaceChildren(applied.applied ? "It is the rollout's grade now. Load the page again to see it." : `It is not the grade: ${visible(applied.not_applied ?? applied.error ?? "")}`);
  }, fail);
  said.replaceChildren(visible(text), " ", grade.error || same || typeof grade.reward !== "number" ? "" : apply);
}

// standing is the header: outcome and why, and the facts.
function standing(state, head, { turns, called }) {
  const versions = [...new Set(turns.map((t) => t.model_version).filter(Boolean))];
  const models = [...new Set(turns.map((t) => t.model).filter(Boolean))];
  const usage = head?.usage;
  const end = state.finished_at ? Date.parse(state.finished_at) : Date.now();
  const badge = state.outcome ? outcome(state) : el("span", { class: "running" }, state.phase.replaceAll("_", " "));
  badge.classList.add("badge");
  const reward = typeof (head?.reward ?? state.reward) === "number" ? el("span", { class: "reward" }, "reward ", el("b", { title: String(head?.reward ?? state.reward) }, short(head?.reward ?? state.reward))) : state.outcome ? el("span", { class: "reward quiet" }, "no reward") : null;
  const reasons = [
    ["bad", state.error || head?.error], ["warn", state.waiting], ["warn", head?.grading?.why], ["warn", head ? failedTest(head) : ""], ["warn", head?.untrained], ...(head?.resource_causes ?? []).map((c) => ["bad", cause(c)]),
    ...(head?.attempts ?? []).slice(0, -1).filter((a) => a.error).map((a) => ["quiet", `attempt ${a.number}: ${a.outcome.replaceAll("_", " ")}: ${a.error}`]),
  ].filter(([, text], i, all) => text && all.findIndex(([, other]) => other === text) === i);
  const known = [
    ["Task", state.task_id && taskLink(state.task_id)], ["Step", visible(state.step ?? "")], ["Group", state.group_id && groupLink(state.group_id)], ["Agent", visible(head?.agent ?? "")], ["Endpoint", visible(head?.endpoint ?? "")], ["Model", models.map(visible).join(", ")], ["Weights", range(versions.map(visible))],
    ["Turns", !head ? state.turns || (called.length ? "" : 0) : head.agent === "interactive" ? "" : usage.turns || turns.length], ["Tool calls", called.length || ""], ["Tokens", usage?.prompt_tokens ? `${usage.prompt_tokens.toLocaleString("en")} in, ${usage.completion_tokens.toLocaleString("en")} out` : ""],
    ["Cost", usage?.cost_usd ? dollars(usage.cost_usd) : ""], ["Time", seconds((end - Date.parse(state.started_at)) / 1000)], ["Attempt", state.attempt > 1 ? state.attempt : ""], ["Host", visible(state.host ?? "")], ["Sandbox", visible(state.sandbox_id ?? head?.sandbox_id ?? "")],
  ];
  return [
    el("div", { class: "verdict" }, badge, reward, el("span", { class: "siblings" })),
    reasons.map(([tone, text]) => el("p", { class: tone }, visible(plain(text)))),
    facts(known, { inline: true }),
  ].flat();
}

// plain writes the phase at the begin of an error as words.
const plain = (text) => text.replace(/^[a-z]+(_[a-z]+)+(?=: )/, (phase) => phase.replaceAll("_", " "));

const short = (reward) => String(Number(reward.toPrecision(4)));
const range = (versions) => (versions.length > 2 ? `${versions[0]} … ${versions.at(-1)}` : versions.join(", "));

// siblings adds links to the other rollouts of the group.
async function siblings(state, summary, signal) {
  if (!state.group_id) return;
  const group = await get("groups/" + encodeURIComponent(state.group_id)).catch(() => null);
  if (!group || signal.aborted) return;
  const at = group.members.findIndex((m) => m.rollout_id === state.rollout_id);
  const list = group.members.map((m, i) => {
    const link = rolloutLink(m.rollout_id);
    link.textContent = typeof m.reward === "number" ? m.reward.toFixed(2) : "–";
    link.title = m.rollout_id;
    if (i === at) link.setAttribute("aria-current", "true");
    return link;
  });
  const node = el("span", { class: "siblings" }, el("span", { class: "quiet" }, "siblings "), list);
  const put = () => summary.querySelector(".siblings")?.replaceWith(node);
  put();
  new MutationObserver(() => node.isConnected || put()).observe(summary, { childList: true });
}

/** cause describes a limit that was reached, with the attempt and the phase. */
function cause(c) {
  const what = { out_of_memory: `processes killed for memory: ${c.count}`, too_many_processes: `processes refused: ${c.count}`, out_of_disk: `full: ${(c.folders ?? []).join(", ")}` };
  return `attempt ${c.attempt}, ${c.phase.replaceAll("_", " ")}: ${what[c.cause] ?? c.cause}`;
}

// logEvent adds a line to the log of events.
function logEvent(log, kind, e) {
  const at = e.at ?? e.start;
  const text = { phase: () => e.phase.replaceAll("_", " "), turn: () => `turn ${e.turn}, ${e.completion_tokens ?? 0} tokens, ${seconds(e.latency_s ?? null)}${e.broken ? ", " + e.broken : ""}`, tool_start: () => e.tool, tool_end: () => `${e.tool} ${e.status}`, command: () => `${e.stage} ${e.number}: ${e.result ? "exit " + e.result.exit_code : e.command}`,
    attempt: () => `${e.attempt}: ${e.outcome} ${e.error ?? ""}`, waiting: () => e.waiting || "over", grade: () => `reward ${e.reward ?? "none"} ${e.why ?? ""}`, done: () => e.outcome }[kind]?.() ?? "";
  if (kind === "tool_output" || kind === "text" || kind === "thinking") return;
  log.append(el("li", {}, el("time", {}, at ? new Date(at).toLocaleTimeString() : ""), el("b", {}, kind), " ", visible(String(text).slice(0, 300))));
  while (log.childElementCount > 2000) log.firstChild.remove();
}

const logs = (path) => el("div", {}, ["agent", "verifier", "proxy", "network"].map((name) => {
  const item = el("details", { class: "file-item" }, el("summary", {}, el("b", {}, `Log of the ${{ proxy: "gateway" }[name] ?? name}`)));
  item.addEventListener("toggle", async () => {
    if (item.childElementCount > 1) return;
    const text = await ask(`${path}/logs/${name}`).then((r) => r.text(), (error) => error.message);
    item.append(block(text || "(empty)"));
  });
  return item;
}));

// data has the downloads and the head of the result.
function data(path, head) {
  const save = (name, from) => button(name, () => download(from, `${head.rollout_id}-${name}`), (error) => complain(error.message));
  return el("div", {},
    facts([["Rollout type", head.rollout_type], ["Capture", head.capture_level], ["Trained", head.untrained ? visible(head.untrained) : "yes"], ["Digest of the trace", head.digest]]),
    savedPlace ? null : el("div", { class: "row" }, save("page.html", path + "/page"), save("result.json", path + "/result"), save("trace.jsonl", path + "/trace"), save("sequences.jsonl", path + "/trajectory"), save("atif.json", path + "/trace?format=atif"), save("turns.npz", path + "/trace?format=npz")),
    el("h3", {}, "Result without its model calls and files"), block(pretty(head), { className: "file", paint: painter("x.json") }));
}
