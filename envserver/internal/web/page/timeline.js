// Where the time of a rollout went: its phases, and within them model calls and tools.
import { el, seconds, table } from "./dom.js";

/** timeline returns the node of a rollout's time. turns are those of the trace, times those of tool calls, onTurn opens a turn; of an episode the model is its client's. */
export function timeline(state, turns, times, onTurn, episode) {
  const phases = state.phases ?? [];
  if (!phases.length) return el("p", { class: "quiet" }, "The phases are not known.");
  const stop = (p) => (p.end ? Date.parse(p.end) : state.finished_at ? Date.parse(state.finished_at) : Date.now());
  const begin = Math.min(...phases.map((p) => Date.parse(p.start)));
  const end = Math.max(...phases.map(stop), begin + 1);
  const tools = [...times.values()].filter((t) => t.from && t.to);
  const scale = (time) => (100 * (time - begin)) / (end - begin);
  const bar = (from, to, tone, title, click) => el("rect", { x: scale(from), width: Math.max(scale(to) - scale(from), 0.15), height: 10, class: tone, click: click ?? null }, el("title", {}, title));
  const lane = (name, bars) => el("li", {}, el("span", {}, name), el("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": name }, bars));
  const model = turns.flatMap((t) => {
    const from = t.timestamp * 1000;
    const [asked, first, last] = [from + t.queued_s * 1000, from + t.first_byte_s * 1000, from + t.latency_s * 1000];
    const open = () => onTurn(t.turn);
    const name = `turn ${t.turn}: `;
    return [
      t.queued_s > 0.001 ? bar(from, asked, "wait", name + "waited " + seconds(t.queued_s), open) : [],
      t.first_byte_s ? [bar(Math.min(asked, first), first, "prefill", `${name}first byte after ${seconds(t.first_byte_s)}`, open), bar(first, last, "decode", `${name}decoded for ${seconds(t.latency_s - t.first_byte_s)}`, open)] : bar(asked, last, "decode", name + seconds(t.latency_s), open),
    ].flat();
  });
  const attempts = [...new Set(phases.map((p) => p.attempt))];
  return el("div", {},
    el("ol", { class: "lanes" },
      attempts.map((n) => lane(attempts.length > 1 ? `Attempt ${n}` : "Phases", phases.filter((p) => p.attempt === n).map((p) => bar(Date.parse(p.start), stop(p), partOf(p), `${words(p.phase)}: ${seconds((stop(p) - Date.parse(p.start)) / 1000)}`)))),
      model.length ? lane("Model", model) : null,
      tools.length ? lane("Tools", tools.map((t) => bar(t.from, t.to, t.failed ? "failed" : "tool", seconds((t.to - t.from) / 1000)))) : null),
    el("div", { class: "axis", "aria-hidden": "true" }, el("span", {}, "0"), el("span", {}, seconds((end - begin) / 2000)), el("span", {}, seconds((end - begin) / 1000))),
    el("p", { class: "legend" }, [["wait", "waiting"], ["phase-ours", "rolloutd"], ["phase-task", "setup and verifier"], ["phase-agent", "agent"], ...(model.length ? [["prefill", "to the first byte"], ["decode", "decoding"]] : []), ...(tools.length ? [["tool", "tool"]] : [])].map(([tone, name]) => el("span", {}, el("i", { class: tone }), name))),
    spent(phases, turns, tools, stop, episode), el("h3", {}, "Phases"), el("div", { class: "wide" }, el("table", {}, table(["Phase", { number: "Attempt" }, { number: "Begins" }, { number: "Time" }],
      phases.map((p) => [words(p.phase), { number: p.attempt }, { number: seconds((Date.parse(p.start) - begin) / 1000) }, { number: seconds((stop(p) - Date.parse(p.start)) / 1000) }])))));
}

// What a phase is spent on; the others are rolloutd's own.
const parts = { queued: "wait", awaiting_score: "wait", running_agent: "phase-agent", setup: "phase-task", verifying: "phase-task" };
const partOf = (p) => parts[p.phase] ?? "phase-ours";

const words = (phase) => phase.replaceAll("_", " ");
const sum = (list) => list.reduce((all, n) => all + n, 0);

// spent says how the time divides.
function spent(phases, turns, tools, stop, episode) {
  const lasted = (part) => sum(phases.filter((p) => partOf(p) === part).map((p) => (stop(p) - Date.parse(p.start)) / 1000));
  const agent = lasted("phase-agent");
  const queued = sum(turns.map((t) => t.queued_s));
  const first = sum(turns.map((t) => Math.max(t.first_byte_s - t.queued_s, 0)));
  const decoded = sum(turns.map((t) => t.latency_s)) - queued - first;
  const tool = sum(tools.map((t) => (t.to - t.from) / 1000));
  const of = turns.length ? [["Agent: waiting for the endpoint", queued], ["Agent: model, to the first byte", first], ["Agent: model, decoding", decoded], ["Agent: tools", tool], ["Agent: all else", Math.max(agent - queued - first - decoded - tool, 0)]] : episode ? [["Episode: tools", tool], ["Episode: between the client's calls", Math.max(agent - tool, 0)]] : [["Agent", agent]];
  const rows = [["Waiting for a slot or a score", lasted("wait")], ["rolloutd: sandbox, installing, collecting", lasted("phase-ours")], ["Setup and verifier", lasted("phase-task")], ...of].filter(([, s]) => s > 0);
  const all = sum(phases.map((p) => (stop(p) - Date.parse(p.start)) / 1000));
  if (!all) return null;
  return [el("h3", {}, "Where the time went"), el("div", { class: "wide" }, el("table", {}, table(["Part", { number: "Time" }, { number: "Share" }], rows.map(([name, s]) => [name, { number: seconds(s) }, { number: `${Math.round((100 * s) / all)} %` }]))),
    el("small", {}, "Calls at the same time count each, so that the parts may be more than the whole."))];
}
