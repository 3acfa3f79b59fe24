// How rollouts went over time: the periods of the server's counts as charts. A bar selects the rollouts of its period.
import { el, seconds, table } from "./dom.js";

const count = (n) => n.toLocaleString("en");
const short = (n) => (n >= 100 ? count(Math.round(n)) : String(Number(n.toPrecision(3))));
const share = (n) => `${Math.round(100 * n)} %`;

// Each has the value of a period; null: it has none.
const charts = [
  { name: "Rollouts", of: (p) => p.rollouts, format: count, parts: true },
  { name: "Mean reward", of: (p) => p.mean_reward ?? null, format: short },
  { name: "Passed", of: (p) => (p.rewarded ? p.passed / p.rewarded : null), format: share, most: 1 },
  { name: "Yield", of: (p) => p.rewarded / p.rollouts, format: share, most: 1 },
  { name: "Tokens per second", of: (p) => p.completion_tokens / length(p), format: short },
  { name: "Turns", of: (p) => p.turns / p.rollouts, format: short },
  { name: "Time", of: (p) => p.duration_s / p.rollouts, format: seconds },
];

const length = (p) => (Date.parse(p.end) - Date.parse(p.start)) / 1000;

// tones are the colours of the outcomes; those of one cause share one.
const tones = { completed: "good", agent_failed: "lost1", agent_timeout: "lost2", budget_exhausted: "lost2", verifier_failed: "lost3", setup_failed: "lost3", infra_failed: "lost4", aborted: "lost5" };

/** curves returns the charts of the periods; listOf is the address of the list of rollouts with further filters. */
export function curves(periods, listOf) {
  if (!periods?.length) return el("p", { class: "quiet" }, "No rollout has ended yet.");
  const [begin, end] = [Date.parse(periods[0].start), Date.parse(periods.at(-1).end)];
  const open = (p) => (location.hash = listOf({ since: p.start, until: p.end }));
  const when = (p) => new Date(p.start).toLocaleString();
  const outcomes = [...new Set(periods.flatMap((p) => Object.keys(p.outcomes)))].sort();
  const words = (name) => name.replaceAll("_", " ");
  return el("div", {},
    el("div", { class: "curves" }, charts.map((chart) => figure(chart, periods, { begin, end, open, when }))),
    el("p", { class: "legend" }, outcomes.map((name) => el("span", {}, el("i", { class: tones[name] ?? "lost5" }), words(name)))),
    el("small", {}, `Each bar has the rollouts that started within ${seconds(length(periods[0]))} and have ended. Yield is the share with a reward, Passed the share of these with a reward of 1 or more. Turns and Time are means.`),
    el("details", {}, el("summary", {}, "As a table"), el("div", { class: "wide names", tabindex: "0", role: "region", "aria-label": "Rollouts over time" }, el("table", {}, table(
      ["Started", ...charts.map(({ name }) => ({ number: name })), ...outcomes.map((name) => ({ number: words(name) }))],
      periods.map((p) => [el("a", { href: listOf({ since: p.start, until: p.end }) }, when(p)), ...charts.map(({ of, format }) => ({ number: of(p) === null ? "" : format(of(p)) })), ...outcomes.map((name) => ({ number: p.outcomes[name] ?? "" }))]))))));
}

// figure is one chart. Its bars stand where their periods are in time, so that a pause is a gap.
function figure({ name, of, format, parts, most: top }, periods, { begin, end, open, when }) {
  const known = periods.filter((p) => of(p) !== null);
  if (!known.length) return null;
  const most = top ?? Math.max(...known.map(of), 0);
  const scale = 100 / (end - begin);
  const bars = known.map((p) => {
    const [x, width] = [(Date.parse(p.start) - begin) * scale, Math.max(length(p) * 1000 * scale * 0.9, 0.2)];
    const heights = parts ? Object.entries(p.outcomes).sort().map(([outcome, n]) => [tones[outcome] ?? "lost5", n]) : [["bar", Math.max(of(p), 0)]];
    let y = 40;
    const drawn = heights.map(([tone, n]) => {
      const height = most ? (40 * n) / most : 0;
      y -= height;
      return el("rect", { x, y, width, height, class: tone });
    });
    return [drawn, el("rect", { x, y: 0, width, height: 40, class: "hit", click: () => open(p) }, el("title", {}, `${when(p)}: ${format(of(p))}`))];
  });
  const last = of(known.at(-1));
  return el("figure", {}, el("figcaption", {}, name, el("span", { class: "quiet" }, ` last ${format(last)}, most ${format(Math.max(...known.map(of)))}`)),
    el("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": `${name} over time: last ${format(last)}` }, bars));
}
