// What the list of rollouts shows: the fields of the form, and the filters that are set.
import { $, el, seconds } from "./dom.js";

// Each filter has one parameter, or a least and a greatest one.
const filters = [
  ["status", ["status"]], ["outcome", ["outcome"]], ["task", ["task_id"]], ["group", ["group_id"]], ["producer", ["producer_id"]], ["agent", ["agent"]], ["model", ["model"]], ["endpoint", ["endpoint"]], ["weights", ["model_version"]], ["id", ["id_prefix"]], ["these", ["ids"], (ids) => `${ids.split(",").length} rollouts`],
  ["reward", ["min_reward", "max_reward"]], ["turns", ["min_turns", "max_turns"]], ["time", ["min_duration_s", "max_duration_s"], (s) => seconds(Number(s))],
  ["ended", ["ended_since"], (time) => "from " + new Date(time).toLocaleString()],
  ["started", ["since", "until"], (time) => new Date(time).toLocaleString()],
];

const moments = ["since", "until", "ended_since"]; // the form has local times, the address those of the server

/** read returns what the form has, without empty fields. A time that is still that of the address stays exact: its field has no seconds. */
export function read(address) {
  const exact = (name, value) => (address.has(name) && local(address.get(name)) === value ? address.get(name) : new Date(value).toISOString());
  const all = [...new FormData($("filter"))].map(([name, value]) => [name, moments.includes(name) && value ? exact(name, value) : value.trim()]);
  return new URLSearchParams(all.filter(([, value]) => value !== ""));
}

/** fill gives the form what the address has. */
export function fill(address) {
  for (const field of $("filter").elements) {
    if (!field.name) continue;
    const value = address.get(field.name) ?? "";
    field.value = moments.includes(field.name) && value ? local(value) : value;
  }
}

// local is a time as its field has it.
function local(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** listForm gives the form of another list what the address has. It opens the list of what a person chooses; again draws the same one. */
export function listForm(form, place, query, again) {
  for (const { name } of [...form.elements].filter((field) => field.name)) form.elements[name].value = query.get(name) ?? "";
  form.onsubmit = (event) => {
    event.preventDefault();
    const wanted = new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== ""));
    const to = place + (wanted.size ? "?" + wanted : "");
    location.hash === to ? again() : (location.hash = to);
  };
}

/** chips returns a button for each filter of the address, which removes it. */
export function chips(address, select) {
  const set = filters.filter(([, names]) => names.some((name) => address.has(name)));
  const all = set.map(([what, names, format = String]) => {
    const [least, most] = names.map((name) => (address.has(name) ? format(address.get(name)) : ""));
    const text = names.length === 1 || least === most ? least : least && most ? `${least} – ${most}` : least ? `from ${least}` : `to ${most}`;
    return el("button", { type: "button", class: "chip", "aria-label": `Remove the filter ${what}`, click: () => select(without(address, names)) }, el("span", { class: "quiet" }, what + " "), text.replaceAll("_", " "), el("span", { class: "quiet" }, " ×"));
  });
  if (set.length > 1) all.push(el("button", { type: "button", class: "quiet-button", click: () => select(without(address, filters.flatMap(([, names]) => names))) }, "Remove all"));
  return all;
}

function without(address, names) {
  const left = new URLSearchParams(address);
  names.forEach((name) => left.delete(name));
  return left;
}
