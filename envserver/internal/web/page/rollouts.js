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

// wanted are the filters of the form, and the order, which the page's address has.
const wanted = () => new URLSearchParams([...new FormData($("filter"))].filter(([, v]) => v !== ""));

// asked are the filters as REST knows them.
function asked() {
  const query = wanted();
  query.delete("sort");
  return query;
}

// select opens the list with other filters, which its address has.
function select(query) {
  location.hash = "#/rollouts" + (query.size ? "?" + query : "");
}

async function draw() {
  const rows = [];
  let cursor = "";
  for (let page = 0; page < pages; page++) {
    const query = asked();
    if (cursor) query.set("cursor", cursor);
    const found = await get("rollouts?" + query);
    rows.push(...found.rollouts);
    cursor = found.next ?? "";
    if (!cursor) break;
  }
  if (rows.some((r) => !r.outcome)) await describe(rows);
  complain("");
  $("counts").replaceChildren(...counts(rows));
  drawTable(rows);
  show("more", cursor !== "");
}

// drawTable shows the rows in the order of the form. The button that has the focus is drawn anew and gets it back.
function drawTable(rows) {
  const focused = document.activeElement?.dataset.sort;
  const order = $("filter").elements.sort.value;
  const heads = columns.map(({ name, key, number }) => {
    const button = el("button", { type: "button", class: "sort", "data-sort": key, click: () => sortBy(key, rows) }, name);
    return number ? { number: button } : button;
  });
  $("list").replaceChildren(...table(heads, sorted(rows, order).map(row)));
  const chosen = $("list").querySelector(`[data-sort="${CSS.escape(order.replace("-", ""))}"]`);
  chosen?.closest("th").setAttribute("aria-sort", order.startsWith("-") ? "descending" : "ascending");
  if (focused) $("list").querySelector(`[data-sort="${focused}"]`).focus();
}

// sortBy orders the rows by a column: up, then down, then as the server lists them.
function sortBy(key, rows) {
  const field = $("filter").elements.sort;
  field.value = { [key]: "-" + key, ["-" + key]: "" }[field.value] ?? key;
  const query = wanted();
  history.replaceState(null, "", "#/rollouts" + (query.size ? "?" + query : ""));
  drawTable(rows);
}

// sorted returns the rows in an order such as "reward" or "-reward". Rows without the value are last in both.
function sorted(rows, order) {
  const down = order.startsWith("-");
  const column = columns.find((c) => c.key === order.replace("-", ""));
  if (!column) return rows;
  const missing = (v) => v === undefined || v === null || v === "";
  return rows.map((r) => [r, column.value(r)]).sort(([, a], [, b]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const by = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
    return down ? -by : by;
  }).map(([r]) => r);
}

// describe adds to the rollouts that run what the list does not have of them: turns, and why they wait.
async function describe(rows) {
  const query = asked();
  query.set("status", "running");
  query.set("detail", "true");
  query.set("limit", "100");
  const { rollouts } = await get("rollouts?" + query);
  const now = new Map(rollouts.map((r) => [r.rollout_id, r]));
  for (const r of rows) if (!r.outcome) Object.assign(r, now.get(r.rollout_id));
}

/** rolloutLink returns a link to a rollout's page. */
export const rolloutLink = (id) => link("rollouts", id);

// lasted is how long a rollout has taken, in seconds.
const lasted = (r) => ((r.finished_at ? Date.parse(r.finished_at) : Date.now()) - Date.parse(r.started_at)) / 1000;

// The columns: the value sorts, the cell is shown if it is not the value.
const columns = [
  { name: "Rollout", key: "rollout", value: (r) => r.rollout_id, cell: (r) => el("span", {}, rolloutLink(r.rollout_id), r.match ? el("small", { class: "match" }, visible(r.match)) : null) },
  { name: "Task", key: "task", value: (r) => r.task_id },
  { name: "Model", key: "model", value: (r) => r.model },
  { name: "Phase", key: "phase", value: (r) => r.phase, cell: phase },
  { name: "Outcome", key: "outcome", value: (r) => r.outcome, cell: outcome },
  { name: "Reward", key: "reward", number: true, value: (r) => r.reward },
  { name: "Turns", key: "turns", number: true, value: (r) => r.turns },
  { name: "Tokens", key: "tokens", number: true, value: (r) => r.usage?.completion_tokens },
  { name: "Time", key: "time", number: true, value: lasted, cell: (r) => seconds(lasted(r)) },
];

const row = (r) => columns.map(({ number, value, cell = value }) => (number ? { number: cell(r) } : cell(r)));

// phase is that of a rollout, and why it waits.
function phase(r) {
  return el("span", {}, r.phase.replaceAll("_", " "), r.waiting ? el("small", { class: "match" }, "waiting: " + visible(r.waiting)) : null);
}

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
