// How rollouts went over time: the periods of the server's counts as charts. A bar selects the rollouts of its period.
import { el, seconds, table } from "./dom.js";
import { visible } from "./text.js";

const count = (n) => n.toLocaleString("en");
const short = (n) => (n >= 100 ? count(Math.round(n)) : String(Number(n.toPrecision(3))));
const share = (n) => `${Math.round(100 * n)} %`;

// Each has the value of a period; null: it has none. Those of rollouts that ran are not only of those that started then.
const started = (of) => (p) => (p.rollouts ? of(p) : null);
const charts = [
  { name: "Rollouts", of: started((p) => p.rollouts), format: count, parts: true },
  { name: "Mean reward", of: (p) => p.mean_reward ?? null, format: short },
  { name: "Passed", of: (p) => (p.rewarded ? p.passed / p.rewarded : null), format: share, most: 1 },
  { name: "Yield", of: started((p) => p.rewarded / p.rollouts), format: share, most: 1 },
  { name: "Versions behind", of: (p) => (p.versioned ? p.versions_behind / p.versioned : null), format: short },
  { name: "Sequences per rollout", of: (p) => (p.sequenced ? p.sequences / p.sequenced : null), format: short },
  { name: "Waiting for a slot", of: (p) => p.queued, format: short, ran: true },
  { name: "With a slot", of: (p) => p.running, format: short, ran: true },
  { name: "Tokens per second", of: started((p) => p.completion_tokens / length(p)), format: short },
  { name: "Turns", of: started((p) => p.turns / p.rollouts), format: short },
  { name: "Time", of: started((p) => p.duration_s / p.rollouts), format: seconds },
];

const length = (p) => (Date.parse(p.end) - Date.parse(p.start)) / 1000;

// tones are the colours of the outcomes; those of one cause share one.
const tones = { completed: "good", agent_failed: "lost1", agent_timeout: "lost2", budget_exhausted: "lost2", verifier_failed: "lost3", setup_failed: "lost3", infra_failed: "lost4", aborted: "lost5" };

/** curves returns the charts of the periods; listOf is the address of the list of rollouts with further filters. */
export function curves(periods, listOf) {
  if (!periods?.length) return el("p", { class: "quiet" }, "No rollout has ended yet.");
  const begin = Date.parse(periods[0].start);
  const scale = 100 / (Date.parse(periods.at(-1).end) - begin);
  const when = (p) => new Date(p.start).toLocaleString();
  const outcomes = [...new Set(periods.flatMap((p) => Object.keys(p.outcomes)))].sort();
  const words = (name) => name.replaceAll("_", " ");
  const timed = periods.some((p) => p.running || p.queued); // rollouts of earlier versions have no times of their phases
  const shown = charts.filter(({ of, ran }) => (ran ? timed : periods.some((p) => of(p) !== null)));
  const bars = ({ of, parts, ran }) => periods.filter((p) => of(p) !== null).map((p) => ({
    value: of(p), x: (Date.parse(p.start) - begin) * scale, width: Math.max(length(p) * 1000 * scale * 0.9, 0.2), title: when(p),
    parts: parts && Object.entries(p.outcomes).sort().map(([outcome, n]) => [tones[outcome] ?? "lost5", n]),
    to: listOf(ran ? { until: p.end, ended_since: p.start } : { since: p.start, until: p.end }),
  }));
  return el("div", {},
    el("div", { class: "curves" }, shown.map((chart) => figure(chart.name + " over time", chart, bars(chart)))),
    el("p", { class: "legend" }, outcomes.map((name) => el("span", {}, el("i", { class: tones[name] ?? "lost5" }), words(name)))),
    el("small", {}, `Each bar has the rollouts that started within ${seconds(length(periods[0]))} and have ended. Yield is the share with a reward, Passed the share of these with a reward of 1 or more. Turns and Time are means. `,
      shown.some(({ name }) => name === "Versions behind") ? "Versions behind is how many newer versions of the weights replied, to any of these rollouts, before the rollout ended: a mean. " : "",
      shown.some(({ name }) => name === "Sequences per rollout") ? "Sequences per rollout is a mean of the rollouts that have training sequences: 1 where each prompt repeats what was sampled. " : "",
      timed ? "Waiting for a slot and With a slot are means of the period, also of rollouts that started before it." : ""),
    el("details", {}, el("summary", {}, "As a table"), el("div", { class: "wide names", tabindex: "0", role: "region", "aria-label": "Rollouts over time" }, el("table", {}, table(
      ["Started", ...shown.map(({ name }) => ({ number: name })), ...outcomes.map((name) => ({ number: words(name) }))],
      periods.map((p) => [el("a", { href: listOf({ since: p.start, until: p.end }) }, when(p)), ...shown.map(({ of, format }) => ({ number: of(p) === null ? "" : format(of(p)) })), ...outcomes.map((name) => ({ number: p.outcomes[name] ?? "" }))]))))));
}

/** versions returns how the rollouts went by the version of the weights of their first reply; null: no reply named one. */
export function versions(all, listOf) {
  if (!all?.length) return null;
  const bars = all.map((v, i) => ({ ...v, x: (100 * i) / all.length, width: 90 / all.length, title: visible(v.version), to: listOf({ model_version: v.version }) }));
  const charts = [
    { name: "Passed", of: (v) => (v.rewarded ? v.passed / v.rewarded : null), format: share, most: 1 },
    { name: "Mean reward", of: (v) => v.mean_reward ?? null, format: short },
    { name: "Rollouts", of: (v) => v.rollouts, format: count },
  ];
  const cell = ({ of, format }, v) => ({ number: of(v) === null ? "" : format(of(v)) });
  return el("div", {},
    el("h2", {}, "By version of the weights"),
    el("div", { class: "curves" }, charts.map((chart) => figure(chart.name + " by version", chart, bars.map((v) => ({ ...v, value: chart.of(v) })).filter(({ value }) => value !== null)))),
    el("small", {}, "Each bar has the rollouts whose first reply named the version, in the order in which the versions appeared."),
    el("details", { open: all.length <= 10 }, el("summary", {}, "As a table"), el("div", { class: "wide names", tabindex: "0", role: "region", "aria-label": "Rollouts by version" }, el("table", { class: "versions" }, table(
      ["Version", "First reply", ...charts.map(({ name }) => ({ number: name }))],
      all.map((v) => [el("a", { href: listOf({ model_version: v.version }) }, visible(v.version)), new Date(v.first_seen).toLocaleString(), ...charts.map((chart) => cell(chart, v))]))))));
}

// figure is one chart. Its bars stand where they are in time, so that a pause is a gap; each opens its rollouts.
function figure(label, { name, format, most: top }, bars) {
  if (!bars.length) return null;
  const values = bars.map(({ value }) => value);
  const most = Math.max(...values);
  const [high, low] = [top ?? Math.max(most, 0), Math.min(...values, 0)];
  const scale = high > low ? 40 / (high - low) : 0;
  const drawn = bars.map(({ value, x, width, title, parts, to }) => {
    let y = high * scale; // of 0: what is below it hangs down
    const stack = (parts || [["bar", value]]).map(([tone, n]) => {
      const height = Math.abs(n) * scale;
      if (n > 0) y -= height;
      return el("rect", { x, y, width, height, class: tone });
    });
    return [stack, el("rect", { x, y: 0, width, height: 40, class: "hit", click: () => (location.hash = to) }, el("title", {}, `${title}: ${format(value)}`))];
  });
  const last = format(bars.at(-1).value);
  return el("figure", {}, el("figcaption", {}, name, el("span", { class: "quiet" }, ` last ${last}, most ${format(most)}`)),
    el("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: last ${last}` }, drawn));
}
