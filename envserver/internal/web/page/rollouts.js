// The list of rollouts, for operators.
import { get } from "./api.js";
import { $, el, seconds, show, table } from "./dom.js";

const every = 5000;
let timer;
let pages = 1;

/** list shows the rollouts and keeps them fresh until stop is called. */
export async function list() {
  $("filter").onsubmit = (event) => {
    event.preventDefault();
    pages = 1;
    refresh();
  };
  $("more").onclick = () => {
    pages++;
    refresh();
  };
  await refresh();
}

export function stop() {
  clearTimeout(timer);
}

async function refresh() {
  stop();
  const rows = [];
  let cursor = "";
  for (let page = 0; page < pages; page++) {
    const query = new URLSearchParams([...new FormData($("filter"))].filter(([, v]) => v !== ""));
    if (cursor) query.set("cursor", cursor);
    const found = await get("rollouts?" + query);
    rows.push(...found.rollouts);
    cursor = found.next ?? "";
    if (!cursor) break;
  }
  const heads = ["Rollout", "Task", "Phase", "Outcome", { number: "Reward" }, { number: "Time" }];
  $("list").replaceChildren(...table(heads, rows.map(row)));
  show("more", cursor !== "");
  timer = setTimeout(() => refresh().catch(() => {}), every);
}

function row(r) {
  const link = el("a", { href: "#/rollouts/" + encodeURIComponent(r.rollout_id) }, r.rollout_id);
  const end = r.finished_at ? Date.parse(r.finished_at) : Date.now();
  return [link, r.task_id, r.phase.replaceAll("_", " "), outcome(r), { number: r.reward }, { number: seconds((end - Date.parse(r.started_at)) / 1000) }];
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
