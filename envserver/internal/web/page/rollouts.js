// The list of rollouts, for operators.
import { get } from "./api.js";
import { $, complain, el, link, seconds, show, table } from "./dom.js";
import { keep } from "./keep.js";
import { visible } from "./text.js";

let pages = 1;

/** list shows the rollouts that the query selects, and keeps them fresh until another page is opened. */
export async function list(query) {
  const again = () => draw().catch((error) => complain(error.message));
  for (const field of $("filter").elements) if (field.name) field.value = query.get(field.name) ?? "";
  pages = 1;
  $("filter").onsubmit = (event) => {
    event.preventDefault();
    select(wanted());
    again(); // the filters may be the same
  };
  $("more").onclick = () => {
    pages++;
    again();
  };
  await keep(draw);
}

// wanted are the filters of the form.
const wanted = () => new URLSearchParams([...new FormData($("filter"))].filter(([, v]) => v !== ""));

// select opens the list with other filters, which its address has.
function select(query) {
  location.hash = "#/rollouts" + (query.size ? "?" + query : "");
}

async function draw() {
  const rows = [];
  let cursor = "";
  for (let page = 0; page < pages; page++) {
    const query = wanted();
    if (cursor) query.set("cursor", cursor);
    const found = await get("rollouts?" + query);
    rows.push(...found.rollouts);
    cursor = found.next ?? "";
    if (!cursor) break;
  }
  if (rows.some((r) => !r.outcome)) await describe(rows);
  complain("");
  $("counts").replaceChildren(...counts(rows));
  const heads = ["Rollout", "Task", "Model", "Phase", "Outcome", { number: "Reward" }, { number: "Turns" }, { number: "Tokens" }, { number: "Time" }];
  $("list").replaceChildren(...table(heads, rows.map(row)));
  show("more", cursor !== "");
}

// describe adds to the rollouts that run what the list does not have of them: turns, and why they wait.
async function describe(rows) {
  const query = wanted();
  query.set("status", "running");
  query.set("detail", "true");
  query.set("limit", "100");
  const { rollouts } = await get("rollouts?" + query);
  const now = new Map(rollouts.map((r) => [r.rollout_id, r]));
  for (const r of rows) if (!r.outcome) Object.assign(r, now.get(r.rollout_id));
}

/** rolloutLink returns a link to a rollout's page. */
export const rolloutLink = (id) => link("rollouts", id);

function row(r) {
  const end = r.finished_at ? Date.parse(r.finished_at) : Date.now();
  return [
    el("span", {}, rolloutLink(r.rollout_id), r.match ? el("small", { class: "match" }, visible(r.match)) : null), r.task_id, r.model, phase(r), outcome(r), { number: r.reward }, { number: r.turns },
    { number: r.usage?.completion_tokens }, { number: seconds((end - Date.parse(r.started_at)) / 1000) },
  ];
}

// phase is that of a rollout, and why it waits.
const phase = (r) => el("span", {}, r.phase.replaceAll("_", " "), r.waiting ? el("small", { class: "match" }, "waiting: " + visible(r.waiting)) : null);

// counts are the outcomes and rewards of the rollouts, each a button that selects them.
function counts(rows) {
  const found = new Map();
  const count = (text, filters) => {
    const same = found.get(text) ?? { n: 0, filters };
    found.set(text, { ...same, n: same.n + 1 });
  };
  for (const r of rows) {
    if (r.outcome) count(r.outcome.replaceAll("_", " "), { outcome: r.outcome });
    else count("running", { status: "running" });
    if (typeof r.reward === "number") count("reward " + r.reward, { min_reward: r.reward, max_reward: r.reward });
  }
  // a verifier may give each rollout another reward
  const shown = [...found].sort(([, a], [, b]) => b.n - a.n).slice(0, 12);
  return shown.map(([text, { n, filters }]) => {
    const click = () => select(new URLSearchParams({ ...Object.fromEntries(wanted()), ...filters }));
    return el("button", { type: "button", click }, `${text}: ${n}`);
  });
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
