// The steps of a task: how each ended, and where it begins in the conversation.
import { el } from "./dom.js";
import { visible } from "./text.js";

/** stepOf returns the number of a turn's step, from 0, or -1. The turns of a later step name its attempt. */
export function stepOf(turn, steps) {
  const later = /^step(\d+)\./.exec(turn.lineage ?? "");
  return later ? steps.findIndex((s) => s.attempt === Number(later[1])) : steps.length ? 0 : -1;
}

// ending says how a step ended.
function ending(step) {
  const rewards = Object.entries(step.rewards ?? {}).map(([name, value]) => `${visible(name)} ${value}`);
  return [
    typeof step.reward === "number" ? el("span", { class: "reward" }, "reward ", el("b", {}, String(step.reward))) : el("span", { class: "quiet" }, "no reward"),
    rewards.length ? el("span", { class: "quiet" }, rewards.join(", ")) : null,
    el("span", { class: step.outcome === "completed" ? "good" : "bad" }, visible(step.outcome.replaceAll("_", " "))),
    el("span", { class: "quiet" }, visible((step.grading?.status ?? "").replaceAll("_", " "))),
    step.grading?.why ? el("span", { class: "warn" }, visible(step.grading.why)) : null,
  ].filter(Boolean);
}

const name = (step, n) => `Step ${n + 1}: ${visible(step.name)}`;

/** stepHeading begins a step in the conversation. */
export const stepHeading = (step, n) => el("h3", { class: "step", "data-step": n }, name(step, n), " ", el("span", { class: "chips" }, ending(step)));

/** stepList is the list of all steps; open goes to one. */
export const stepList = (steps, open) => steps.length ? el("ol", { class: "steps", "aria-label": "Steps" }, steps.map((step, n) =>
  el("li", {}, el("button", { type: "button", class: "quiet-button", click: () => open(n) }, name(step, n)), " ", ending(step).flatMap((node) => [node, " "])))) : null;
