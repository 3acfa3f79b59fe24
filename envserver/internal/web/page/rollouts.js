// The list of rollouts, for operators.
import { get } from "./api.js";
import { $, complain, el, link, seconds, show, table } from "./dom.js";
import { keep } from "./keep.js";

let pages = 1;

/** list shows the rollouts and keeps them fresh until another page is opened. */
export async function list() {
  const again = () => draw().catch((error) => complain(error.message));
  $("filter").onsubmit = (event) => {
    event.preventDefault();
    pages = 1;
    again();
  };
  $("more").onclick = () => {
    pages++;
    again();
  };
  await keep(draw);
}

async function draw() {
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
}

/** rolloutLink returns a link to a rollout's page. */
export const rolloutLink = (id) => link("rollouts", id);

function row(r) {
  const end = r.finished_at ? Date.parse(r.finished_at) : Date.now();
  return [rolloutLink(r.rollout_id), r.task_id, r.phase.replaceAll("_", " "), outcome(r), { number: r.reward }, { number: seconds((end - Date.parse(r.started_at)) / 1000) }];
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
