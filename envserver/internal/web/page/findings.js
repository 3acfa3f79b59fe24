// What is unusual about a rollout's turns and tool calls, with the way to each.
import { el } from "./dom.js";
import { visible } from "./text.js";

const most = 8; // lines
const same = 3; // calls in a row that are a loop

/** findings returns a list of what is unusual, or nothing. remarks are [tone, text] of a turn, calls those of the transcript in order, onTurn opens a turn. */
export function findings(turns, remarks, calls, onTurn) {
  const found = [...remarked(turns, remarks), ...looped(calls), ...failed(calls), ...idle(turns, calls)];
  if (!found.length) return null;
  const line = ({ tone, text, turn, at = `turn ${turn}`, more }) => el("li", {},
    el("button", { type: "button", class: "quiet-button", click: () => onTurn(turn) }, at[0].toUpperCase() + at.slice(1)), " ",
    el("span", { class: tone }, visible(text.slice(0, 300))), more ? el("span", { class: "quiet" }, ` ${more}`) : null);
  return el("ul", { class: "findings", "aria-label": "What is unusual" }, found.slice(0, most).map(line),
    found.length > most ? el("li", { class: "quiet" }, `and ${found.length - most} more kinds, which the turns show`) : null);
}

// remarked are the remarks of turns. Those that differ in numbers alone are one.
function remarked(turns, remarks) {
  const kinds = new Map();
  for (const turn of turns) {
    for (const [tone, text] of remarks(turn)) {
      if (tone === "quiet") continue;
      const kind = text.replace(/\d+/g, "#");
      if (!kinds.has(kind)) kinds.set(kind, { tone, text, turn: turn.turn, n: 0 });
      kinds.get(kind).n++;
    }
  }
  return [...kinds.values()].map((f) => ({ ...f, more: f.n > 1 ? `and in ${f.n - 1} more` : "" }));
}

// looped is the longest row of equal calls.
function looped(calls) {
  let longest = [];
  let row = [];
  for (const call of calls) {
    if (row[0]?.key !== call.key) row = [];
    row.push(call);
    if (row.length > longest.length) longest = row;
  }
  if (longest.length < same) return [];
  return [{ tone: "warn", turn: longest[0].turn, at: longest[0].at, text: `the same call ${longest.length} times in a row: ${longest[0].about}` }];
}

// failed is the last call that failed or has no result.
function failed(calls) {
  const bad = calls.filter((call) => call.failure() !== null);
  const last = bad.at(-1);
  return last ? [{ tone: "bad", turn: last.turn, at: last.at, text: `${last.about}: ${last.failure()}`, more: bad.length > 1 ? `the last of ${bad.length} calls that failed, of ${calls.length}` : "" }] : [];
}

// idle is an agent that called no tool.
function idle(turns, calls) {
  const last = turns.findLast((turn) => turn.kind === "agent" && !turn.broken);
  return last && !calls.length ? [{ tone: "quiet", turn: last.turn, text: "the agent called no tool" }] : [];
}
