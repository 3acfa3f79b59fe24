// The live activity of the agent: texts, thinking and tool calls.
import { el } from "./dom.js";

const maxEntries = 200; // the newest ones
const maxChars = 4000; // of an entry, half from each end

/** activity returns a list to which events of a rollout are added. */
export function activity() {
  const list = el("ol", { class: "activity" });
  const node = el("div", { hidden: true }, el("h2", {}, "Activity"), list);
  const add = (kind, data) => {
    const [title, body, bad] = entries[kind]?.(data) ?? [];
    if (!title) return;
    node.hidden = false;
    const heading = el("div", { class: bad ? "bad" : false }, el("span", { class: "quiet" }, time(data.at)), " ", title);
    list.append(el("li", {}, heading, body ? el("pre", { tabindex: "0" }, cut(body)) : null));
    if (list.childElementCount > maxEntries) list.firstChild.remove();
  };
  return { node, add };
}

/** entries maps the kind of an event to a function of its data, which returns the title, the text, and whether it is a failure. */
const entries = {
  agent: (e) => [e.launch > 1 ? `The agent runs, launch ${e.launch}` : "The agent runs"],
  text: (e) => ["The agent says", e.text],
  thinking: (e) => ["The agent thinks", e.text],
  tool_start: (e) => [`The agent calls ${e.tool}`, JSON.stringify(e.input)],
  tool_end: (e) => [`${e.tool} ${e.status === "error" ? "failed" : "is done"}`, [e.output, e.error].filter(Boolean).join("\n"), e.status === "error"],
  attempt: (e) => [`Attempt ${e.attempt}: ${e.outcome.replaceAll("_", " ")}`, e.error, e.outcome.endsWith("failed")],
  truncated: () => ["The log is full: later events are left out"],
};

const time = (at) => (at ? new Date(at).toLocaleTimeString() : "");

function cut(text) {
  if (text.length <= maxChars) return text;
  return `${text.slice(0, maxChars / 2)}\n[... ${text.length - maxChars} characters left out ...]\n${text.slice(-maxChars / 2)}`;
}
