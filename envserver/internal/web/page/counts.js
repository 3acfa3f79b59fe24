// Histograms of all rollouts that the list's filters select. A bar selects its rollouts.
import { el, seconds } from "./dom.js";

// clock is a duration as min:s or h:min:s, which is short; below 10 s it is exact.
function clock(s) {
  if (s < 10) return seconds(s);
  const part = (n) => String(Math.floor(n)).padStart(2, "0");
  const whole = Math.round(s);
  return whole < 3600 ? `${Math.floor(whole / 60)}:${part(whole % 60)}` : `${Math.floor(whole / 3600)}:${part((whole % 3600) / 60)}:${part(whole % 60)}`;
}

const short = (n) => String(Number(n.toPrecision(3)));

/** histograms returns the figures of the server's counts. narrow opens the list with further filters. */
export function histograms(counts, narrow) {
  const figures = [
    ["Outcome", Object.entries(counts.outcomes).sort(([, a], [, b]) => b - a).map(([name, n]) => ({ text: name.replaceAll("_", " "), n, filters: { outcome: name } }))],
    ["Reward", bars(counts.rewards, "reward", short)],
    ["Turns", counts.turns.some(({ max }) => max) ? bars(counts.turns, "turns", String) : []], // episodes have none
    ["Time", bars(counts.durations_s, "duration_s", clock)],
  ];
  return figures.filter(([, list]) => list.length).map(([title, list]) => figure(title, list, narrow));
}

function bars(bins, of, format) {
  return bins.map(({ min, max, count }) => {
    const [least, most] = [format(min), format(max)];
    return { text: least === most ? least : `${least} – ${most}`, n: count, filters: { ["min_" + of]: min, ["max_" + of]: max } };
  });
}

function figure(title, list, narrow) {
  const most = Math.max(...list.map(({ n }) => n));
  const bar = ({ text, n, filters }) => el("button", { type: "button", title: `Show these ${n.toLocaleString("en")} alone`, click: () => narrow(filters) },
    el("span", {}, text), el("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, el("rect", { width: Math.max((100 * n) / most, 0.6), height: 8, class: "bar" })), el("span", { class: "number" }, n.toLocaleString("en")));
  return el("figure", { class: "histogram" }, el("figcaption", {}, title), list.map(bar));
}
