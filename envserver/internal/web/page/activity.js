// What the agent says and does, as it happens.
import { el } from "./dom.js";

const most = 200; // entries: the newest
const longest = 4000; // characters of an entry, half from each end

/** activity is a list that grows with the events of a rollout. */
export function activity() {
  const list = el("ol", { class: "activity" });
  const node = el("div", { hidden: true }, el("h2", {}, "Activity"), list);
  const add = (kind, data) => {
    const [title, body, bad] = entries[kind]?.(data) ?? [];
    if (!title) return;
    node.hidden = false;
    const heading = el("div", { class: bad ? "bad" : false }, el("span", { class: "quiet" }, time(data.at)), " ", title);
    list.append(el("li", {}, heading, body ? el("pre", { tabindex: "0" }, cut(body)) : null));
    if (list.childElementCount > most) list.firstChild.remove();
  };
  return { node, add };
}

/** entries make of an event's data its title, its text, and whether it is a failure. */
const entries = {
  agent: (e) => [e.launch > 1 ? `The agent works, launch ${e.launch}` : "The agent works"],
  text: (e) => ["The agent says", e.text],
  thinking: (e) => ["The agent thinks", e.text],
  tool_start: (e) => [`The agent calls ${e.tool}`, JSON.stringify(e.input)],
  tool_end: (e) => [`${e.tool} ${e.status === "error" ? "failed" : "is done"}`, [e.output, e.error].filter(Boolean).join("\n"), e.status === "error"],
  attempt: (e) => [`Attempt ${e.attempt}: ${e.outcome.replaceAll("_", " ")}`, e.error, e.outcome.endsWith("failed")],
  truncated: () => ["The log is full: what follows is left out"],
};

const time = (at) => (at ? new Date(at).toLocaleTimeString() : "");

function cut(text) {
  if (text.length <= longest) return text;
  return `${text.slice(0, longest / 2)}\n[... ${text.length - longest} characters left out ...]\n${text.slice(-longest / 2)}`;
}
