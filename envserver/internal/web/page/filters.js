// What the list of rollouts shows: the fields of the form, and the filters that are set.
import { $, el, seconds } from "./dom.js";

// Each filter has one parameter, or a least and a greatest one.
const filters = [
  ["status", ["status"]], ["outcome", ["outcome"]], ["task", ["task_id"]], ["group", ["group_id"]], ["agent", ["agent"]], ["model", ["model"]], ["endpoint", ["endpoint"]], ["weights", ["model_version"]], ["id", ["id_prefix"]], ["these", ["ids"], (ids) => `${ids.split(",").length} rollouts`],
  ["reward", ["min_reward", "max_reward"]], ["turns", ["min_turns", "max_turns"]], ["time", ["min_duration_s", "max_duration_s"], (s) => seconds(Number(s))],
  ["ended", ["ended_since"], (time) => "from " + new Date(time).toLocaleString()],
  ["started", ["since", "until"], (time) => new Date(time).toLocaleString()],
];

const moments = ["since", "until", "ended_since"]; // the form has local times, the address those of the server

/** read returns what the form has, without empty fields. */
export function read() {
  const all = [...new FormData($("filter"))].map(([name, value]) => [name, moments.includes(name) && value ? new Date(value).toISOString() : value.trim()]);
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
