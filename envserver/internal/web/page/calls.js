// The model calls of a rollout as a table.
import { el, seconds, table } from "./dom.js";
import { visible } from "./text.js";
import { why } from "./transcript.js";

/** calls returns the node of the turns of a trace; onTurn opens a turn. */
export function calls(turns, onTurn) {
  if (!turns.length) return el("p", { class: "quiet" }, "No model call was recorded.");
  const heads = [{ number: "Turn" }, "Kind", { number: "Prompt" }, { number: "Cached" }, { number: "Sampled" }, "Finish", "Train", { number: "First byte" }, { number: "Latency" }, "Weights"];
  const rows = turns.map((t) => [
    { number: t.turn }, t.kind, { number: t.usage.prompt_tokens || t.prompt_token_ids || "–" }, { number: t.usage.cached_prompt_tokens || "" }, { number: t.usage.completion_tokens || t.completion_token_ids || "–" },
    visible(t.finish_reason ?? ""), t.train ? "yes" : "no", { number: seconds(t.first_byte_s || null) }, { number: seconds(t.latency_s) }, visible(t.model_version ?? ""),
  ]);
  const [head, body] = table(heads, rows);
  [...body.children].forEach((row, i) => {
    const remarks = why(turns[i]);
    if (remarks.length) row.after(el("tr", { class: "remarks" }, el("td"), el("td", { colspan: heads.length - 1 }, remarks.map(([tone, text]) => el("div", { class: tone }, visible(text))))));
    row.firstChild.replaceChildren(el("button", { type: "button", class: "quiet-button", click: () => onTurn(turns[i].turn) }, String(turns[i].turn)));
  });
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Model calls" }, el("table", {}, head, body));
}
