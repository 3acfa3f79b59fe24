// The branches of a conversation: calls of subagents and auxiliary calls are folded, and each summary begins a part.
import { el, seconds } from "./dom.js";
import { visible } from "./text.js";

const names = { subagent: "Subagent", compacted: "Continued from a summary", auxiliary: "Titles and summaries", foreign: "Calls that are not the agent's own" };

/** branches returns a function that returns the element for the next turn: list itself, or a branch in it. */
export function branches(list) {
  const folds = new Map(); // by key
  const summaries = new Map(); // by lineage: how many
  let trunk = { body: list };
  let latest = null; // the branch of the turn before

  const keyOf = (turn) => {
    if (!names[turn.branch]) return null;
    if (turn.branch === "subagent") return "subagent " + turn.lineage;
    if (turn.branch === "compacted") return `compacted ${turn.lineage} ${summaries.get(turn.lineage) ?? 0}`;
    return latest?.branch === turn.branch ? latest.key : `${turn.branch} ${turn.turn}`;
  };
  const begin = (turn, key) => {
    const about = el("summary");
    const body = el("div", { class: "branch-turns" });
    const fold = { key, branch: turn.branch, about, body, turns: [], node: el("details", { class: "branch", "data-branch": turn.branch }, about, body) };
    if (turn.branch === "compacted") {
      // only the last part is open; its subagents are in it
      if (trunk.node) trunk.node.open = false;
      fold.node.open = true;
      list.append(fold.node);
      trunk = fold;
    } else {
      trunk.body.append(fold.node);
    }
    folds.set(key, fold);
    return fold;
  };

  const next = (turn) => {
    const key = keyOf(turn);
    latest = key ? (folds.get(key) ?? begin(turn, key)) : null;
    if (turn.kind === "summary" && turn.delivered && !turn.broken) summaries.set(turn.lineage, (summaries.get(turn.lineage) ?? 0) + 1);
    if (!latest) return trunk.body;
    latest.turns.push(turn);
    latest.about.replaceChildren(...describe(latest));
    return latest.body;
  };
  /** reset ends the part that a summary began: a step of the task is another conversation. */
  const reset = () => {
    trunk = { body: list };
    latest = null;
  };
  return { next, reset };
}

function describe({ branch, turns }) {
  const first = turns[0];
  const asked = (branch === "subagent" ? first.parts.find((p) => p.kind === "user")?.text : null) ?? "";
  const tokens = turns.reduce((sum, t) => sum + (t.usage.completion_tokens || t.completion_token_ids), 0);
  const time = turns.reduce((sum, t) => sum + t.latency_s, 0);
  const range = turns.length > 1 ? `turns ${first.turn}–${turns.at(-1).turn}, ${turns.length} calls` : `turn ${first.turn}`;
  return [el("b", {}, names[branch]), " ", el("span", { class: "quiet" }, visible(asked.trim().split("\n")[0].slice(0, 160))), el("span", { class: "chips" }, el("span", {}, range), tokens ? el("span", {}, `${tokens} tokens`) : null, el("span", {}, seconds(time)))];
}
