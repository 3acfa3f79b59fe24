// The model calls of a rollout as a table.
import { el, seconds, table } from "./dom.js";
import { visible } from "./text.js";
import { why } from "./transcript.js";

/** calls returns the node of the turns of a trace; onTurn opens a turn. */
export function calls(turns, onTurn) {
  if (!turns.length) return el("p", { class: "quiet" }, "No model call was recorded.");
  const known = (of) => turns.some((t) => of(t)); // else the column is left out
  const columns = [
    [{ number: "Turn" }, (t) => ({ number: t.turn })], ["Kind", (t) => t.kind],
    [{ number: "Prompt" }, (t) => ({ number: t.usage.prompt_tokens || t.prompt_token_ids || "–" })],
    known((t) => t.usage.cached_prompt_tokens) && [{ number: "Cached" }, (t) => ({ number: t.usage.cached_prompt_tokens || "" })],
    [{ number: "Sampled" }, (t) => ({ number: t.usage.completion_tokens || t.completion_token_ids || "–" })],
    ["Finish", (t) => visible(t.finish_reason ?? "")], ["Train", (t) => (t.train ? "yes" : "no")],
    known((t) => t.first_byte_s) && [{ number: "First byte" }, (t) => ({ number: seconds(t.first_byte_s || null) })],
    [{ number: "Latency" }, (t) => ({ number: seconds(t.latency_s) })],
    known((t) => t.model_version) && ["Weights", (t) => visible(t.model_version ?? "")],
  ].filter(Boolean);
  const heads = columns.map(([name]) => name);
  const rows = turns.map((t) => columns.map(([, cell]) => cell(t)));
  const [head, body] = table(heads, rows);
  [...body.children].forEach((row, i) => {
    const remarks = why(turns[i]);
    if (remarks.length) row.after(el("tr", { class: "remarks" }, el("td"), el("td", { colspan: heads.length - 1 }, remarks.map(([tone, text]) => el("div", { class: tone }, visible(text))))));
    row.firstChild.replaceChildren(el("button", { type: "button", class: "quiet-button", click: () => onTurn(turns[i].turn) }, String(turns[i].turn)));
  });
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Model calls" }, el("table", {}, head, body));
}
