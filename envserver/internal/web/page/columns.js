// The columns of the list of rollouts, and which of them are shown.
import { dollars, el, link, seconds } from "./dom.js";
import { place } from "./saved.js";
import { visible } from "./text.js";

const kept = "columns"; // in the browser, and in the page's address

/** episodes reports whether a list is that of interactive episodes. */
export const episodes = (address) => address.get("agent") === "interactive";

const ofEpisodes = ["task_id", "outcome", "owner", "started_at", "duration_s", "tool_calls", "last_call_at", "reward"];

/** rolloutLink returns a link to a rollout's page. */
export const rolloutLink = (id) => link("rollouts", id);

/** taskLink returns a link to a task's page, which a saved page does not have. */
export const taskLink = (id) => {
  if (place) return visible(id);
  const a = link("tasks", id);
  a.textContent = visible(id);
  return a;
};

// lasted is how long a rollout has taken, in seconds.
const lasted = (r) => ((r.finished_at ? Date.parse(r.finished_at) : Date.now()) - Date.parse(r.started_at)) / 1000;

const count = (n) => n?.toLocaleString("en");

// The key is the field by which the server sorts; null: it does not.
const columns = [
  { name: "Rollout", key: "rollout_id", fixed: true, cell: (r) => el("span", {}, rolloutLink(r.rollout_id), r.match ? el("small", { class: "match" }, visible(r.match)) : null) },
  { name: "Task", key: "task_id", usual: true, cell: (r) => (r.task_id ? taskLink(r.task_id) : "") },
  { name: "Group", key: "group_id", cell: (r) => (r.group_id ? link("groups", r.group_id) : "") },
  { name: "Agent", key: "agent", usual: true, cell: (r) => named(r.agent) },
  { name: "Model", key: "model", usual: true, cell: (r) => named(r.model) },
  { name: "Endpoint", key: "endpoint", cell: (r) => named(r.endpoint) },
  { name: "Outcome", key: "outcome", usual: true, cell: (r) => (r.outcome ? outcome(r) : phase(r)) },
  { name: "Reward", key: "reward", usual: true, number: true, cell: (r) => (typeof r.reward === "number" ? Number(r.reward.toPrecision(4)) : "") },
  { name: "Turns", key: "turns", usual: true, number: true, cell: (r) => count(r.turns) },
  { name: "Calls", id: "tool_calls", number: true, cell: (r) => count(r.tool_calls) },
  { name: "Last call", id: "last_call_at", cell: (r) => (r.last_call_at ? new Date(r.last_call_at).toLocaleString() : "") },
  { name: "Tokens", key: "completion_tokens", usual: true, number: true, cell: (r) => count(r.usage?.completion_tokens) },
  { name: "Prompt tokens", id: "prompt_tokens", number: true, cell: (r) => count(r.usage?.prompt_tokens) },
  { name: "Cost", id: "cost", number: true, cell: (r) => (r.usage?.cost_usd ? dollars(r.usage.cost_usd) : "") },
  { name: "Attempts", id: "attempt", number: true, cell: (r) => r.attempt },
  { name: "Time", key: "duration_s", usual: true, number: true, cell: (r) => seconds(lasted(r)) },
  { name: "Started", key: "started_at", cell: (r) => new Date(r.started_at).toLocaleString() },
  { name: "Owner", id: "owner", cell: (r) => named(r.owner) },
];

const named = (text) => visible(text ?? "");
const id = (column) => column.id ?? column.key;

// store is where the browser keeps the choice; usual are the columns without one.
const store = (address) => (episodes(address) ? kept + " of episodes" : kept);
const usual = (address) => (episodes(address) ? ofEpisodes : columns.filter((c) => c.usual).map(id));

/** shown returns the columns that the address, or else the browser, has chosen. */
export function shown(address) {
  const chosen = (address.get(kept) ?? localStorage.getItem(store(address)) ?? "").split(",").filter((name) => columns.some((c) => id(c) === name));
  const wanted = chosen.length ? chosen : usual(address);
  return columns.filter((c) => c.fixed || wanted.includes(id(c)));
}

/** chooser returns a menu of the columns. onChange gets what the address is to have; undefined: the usual ones. */
export function chooser(address, onChange) {
  const now = shown(address);
  const box = (c) => el("label", { class: "check" }, el("input", { type: "checkbox", value: id(c), checked: now.includes(c) }), c.name);
  const boxes = columns.filter((c) => !c.fixed).map(box);
  const change = () => {
    const chosen = [...menu.querySelectorAll(":checked")].map((b) => b.value);
    const same = chosen.toSorted().join() === usual(address).toSorted().join();
    const text = same || !chosen.length ? undefined : chosen.join();
    text ? localStorage.setItem(store(address), text) : localStorage.removeItem(store(address));
    onChange(text);
  };
  const menu = el("details", { class: "menu" }, el("summary", {}, "Columns"), el("div", {}, boxes));
  menu.addEventListener("change", change);
  return menu;
}

// phase is that of a rollout that runs, and why it waits.
function phase(r) {
  return el("span", { class: "running" }, r.phase.replaceAll("_", " "), r.waiting ? el("small", { class: "match" }, "waiting: " + visible(r.waiting)) : null);
}

export function outcome(r) {
  if (!r.outcome) return "";
  return el("span", { class: tone(r) }, r.outcome.replaceAll("_", " "));
}

// tone is green only for a positive reward, and neutral for no reward and for aborted rollouts.
function tone(r) {
  if (r.outcome === "completed") return r.reward > 0 ? "good" : "";
  return r.outcome === "aborted" ? "" : "bad";
}
