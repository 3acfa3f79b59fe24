// One rollout: its state, its phases and its results.
import { activity } from "./activity.js";
import { ask, events, get, post } from "./api.js";
import { $, complain, el, facts, seconds, table } from "./dom.js";
import { groupLink } from "./groups.js";
import { outcome } from "./rollouts.js";

let pageLeft = new AbortController();

export function stop() {
  pageLeft.abort();
}

/** rollout shows one rollout until it ends. */
export async function rollout(id) {
  stop();
  pageLeft = new AbortController();
  const { signal } = pageLeft;
  const path = "rollouts/" + encodeURIComponent(id);
  // The button is not redrawn, so that no click is lost.
  const abort = el("button", { type: "button", hidden: true, click: () => end(abort, path) }, "Abort");
  const live = el("div");
  const left = el("div");
  const happens = activity();
  $("rollout").replaceChildren(el("h2", { id: "rollout-title" }, id), abort, live, left, happens.node);
  const calls = {}; // of each attempt, by the events: the state has them later
  const now = async () => {
    const state = await get(path);
    state.turns = Math.max(state.turns, calls[state.attempt] ?? 0);
    abort.hidden = state.phase === "done";
    live.replaceChildren(...standing(state));
  };
  await now();
  // Redraw at most twice a second, since events may come fast.
  let drawing = false;
  let changed = false;
  const redraw = async () => {
    changed = true;
    if (drawing) return;
    drawing = true;
    while (changed && !signal.aborted) {
      changed = false;
      await now().catch((error) => complain(error.message));
      await new Promise((over) => setTimeout(over, 500));
    }
    drawing = false;
  };
  await events(path + "/events", signal, (kind, data) => {
    happens.add(kind, data);
    if (kind === "turn") calls[data.attempt] = (calls[data.attempt] ?? 0) + 1;
    redraw();
  });
  if (signal.aborted) return;
  await now();
  left.replaceChildren(...result(path, await get(path + "/result")));
}

function standing(state) {
  const list = [
    ["Phase", state.phase.replaceAll("_", " ")], ["Waiting", state.waiting], ["Outcome", outcome(state)], ["Reward", state.reward ?? "none"], ["Task", state.task_id], ["Group", state.group_id && groupLink(state.group_id)],
    ["Attempt", state.attempt], ["Model calls", state.turns], ["Sandbox", state.sandbox_id], ["Error", state.error],
  ];
  return [facts(list), el("h2", {}, "Phases"), phases(state)];
}

async function end(button, path) {
  button.disabled = true;
  await post(path + "/abort", { reason: "abort requested on the web page" }).catch((error) => complain(error.message));
}

/** phases returns one bar per phase on the time line of the rollout. */
function phases(state) {
  const list = state.phases ?? [];
  const begin = Math.min(...list.map((p) => Date.parse(p.start)));
  const stop = (p) => (p.end ? Date.parse(p.end) : state.finished_at ? Date.parse(state.finished_at) : Date.now());
  const whole = Math.max(...list.map(stop)) - begin || 1;
  return el("ol", { class: "phases" }, list.map((p) => {
    const from = (Date.parse(p.start) - begin) / whole;
    const share = (stop(p) - Date.parse(p.start)) / whole;
    const bar = el("rect", { x: from * 100, width: Math.max(share * 100, 0.5), height: 8 });
    const name = p.phase.replaceAll("_", " ") + (p.attempt > 1 ? ` (attempt ${p.attempt})` : "");
    return el("li", {}, el("span", {}, name), el("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, bar), el("span", { class: "time" }, seconds((stop(p) - Date.parse(p.start)) / 1000)));
  }));
}

function result(path, r) {
  const commands = [...r.setup_results.map((c) => ["Setup", c]), ...r.verify_results.map((c) => ["Verify", c])];
  return [
    part("Model calls", turns(r.proxy_turns)),
    ...commands.map(([kind, c]) => part(`${kind}: ${c.cmd} (exit ${c.exit_code})`, text(c.stdout + c.stderr))),
    r.verifier_stdout || r.verifier_stderr ? part("Verifier", text(r.verifier_stdout + r.verifier_stderr)) : null,
    ...Object.entries({ ...r.workdir_files, ...r.files }).map(([name, body]) => part(name, text(body))),
    r.error ? part("Error", text(r.error)) : null,
    r.resource_causes ? part("Sandbox limits that were reached", text(r.resource_causes.map(cause).join("\n"))) : null,
    part("Full logs", el("div", { class: "row" }, ["agent", "proxy", "verifier"].map((name) => log(path, name)))),
  ].filter((p) => p !== null);
}

const part = (title, body) => el("details", { open: title === "Model calls" }, el("summary", {}, title), body);
const text = (body) => el("pre", { tabindex: "0" }, body || "(empty)");

/** cause describes a limit that was reached, with the attempt and the phase. */
function cause(c) {
  const what = { out_of_memory: `processes killed for memory: ${c.count}`, too_many_processes: `processes refused: ${c.count}`, out_of_disk: `full: ${(c.folders ?? []).join(", ")}` };
  return `attempt ${c.attempt}, ${c.phase.replaceAll("_", " ")}: ${what[c.cause] ?? c.cause}`;
}

function turns(list) {
  if (!list.length) return text("(none)");
  const heads = [{ number: "Turn" }, "Kind", { number: "Prompt tokens" }, { number: "Completion tokens" }, "Finish", "Train", { number: "Latency" }];
  const rows = list.map((t) => [
    { number: t.turn }, t.kind, { number: t.prompt_token_ids?.length || "–" }, { number: t.completion_tokens?.length || "–" },
    t.broken || t.finish_reason, t.train ? "yes" : "no", { number: seconds(t.latency_s) },
  ]);
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Model calls" }, el("table", {}, table(heads, rows)));
}

function log(path, name) {
  const load = async (event) => {
    const button = event.target;
    const body = await ask(`${path}/logs/${name}`).then((r) => r.text(), (error) => error.message);
    button.parentElement.after(el("h2", {}, name), text(body));
    button.remove();
  };
  return el("button", { type: "button", click: load }, name);
}
