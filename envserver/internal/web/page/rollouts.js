// The list of rollouts.
import { get } from "./api.js";
import { chooser, episodes, shown } from "./columns.js";
import { histograms } from "./counts.js";
import { $, complain, el, show, table } from "./dom.js";
import { chips, fill, read } from "./filters.js";
import { keep } from "./keep.js";
import { place as savedPlace } from "./saved.js";
import * as selection from "./selection.js";

const ofPage = ["sort", "columns"]; // of the address, and no filters

let pages = 1;
let address = new URLSearchParams(); // the filters, the order and the columns
let drawn = ""; // the rows on the page
let counted = ""; // what the histograms are of

let last = { place: "#/rollouts", ids: [] };

/** lastList returns where the list that was shown last is, and the ids of its rollouts. */
export const lastList = () => last;

/** list shows the rollouts that the query selects, and keeps them fresh until another page is opened. */
export async function list(query) {
  address = query;
  [pages, drawn, counted] = [1, "", ""];
  fill(address);
  head();
  selection.follow(() => {
    drawn = "";
    again();
  });
  $("chips").replaceChildren(...chips(address, select));
  $("columns").replaceChildren(chooser(address, (columns) => {
    place("columns", columns);
    again();
  }));
  $("filter").onsubmit = (event) => {
    event.preventDefault();
    const wanted = read(address);
    ofPage.forEach((name) => address.has(name) && wanted.set(name, address.get(name)));
    if (!select(wanted)) again();
  };
  $("more").onclick = () => {
    pages++;
    again();
  };
  await keep(draw);
}

// head says whether the list is that of episodes, which have views of their own.
function head() {
  const ofEpisodes = episodes(address);
  $("rollouts-title").textContent = ofEpisodes ? "Episodes" : "Rollouts";
  $("none").textContent = ofEpisodes ? "No episodes. A client of OpenEnv or MCP opens one at /env/tools." : "No rollouts.";
  const base = ofEpisodes ? { agent: "interactive" } : {};
  const [all, running] = $("views").children;
  all.href = placeOf(new URLSearchParams(base));
  running.href = placeOf(new URLSearchParams({ ...base, status: "running" }));
}

const placeOf = (query) => "#/rollouts" + (query.size ? "?" + query : "");

// select opens the list with other filters; false: they are the same.
function select(query) {
  if (location.hash === placeOf(query)) return false;
  location.hash = placeOf(query);
  return true;
}

// place keeps in the address how the list is shown.
function place(name, value) {
  value ? address.set(name, value) : address.delete(name);
  history.replaceState(null, "", placeOf(address));
  drawn = "";
}

// asked are the filters as REST knows them.
function asked() {
  const query = new URLSearchParams(address);
  query.delete("columns");
  return query;
}

// again draws the list at once: what was asked for before is not shown any more.
const again = () => keep(draw).catch((error) => complain(error.message));

async function draw(signal) {
  const rows = [];
  let cursor = "";
  let unindexed = 0;
  for (let page = 0; page < pages; page++) {
    const query = asked();
    if (cursor) query.set("cursor", cursor);
    const found = await get("rollouts?" + query);
    rows.push(...found.rollouts);
    unindexed = found.unindexed ?? 0;
    cursor = found.next ?? "";
    if (!cursor) break;
  }
  if (rows.some((r) => !r.outcome)) await describe(rows);
  if (signal.aborted) return;
  last = { place: placeOf(address), ids: rows.map((r) => r.rollout_id) };
  drawTable(rows);
  show("more", cursor !== "");
  await count(rows, unindexed);
}

// drawTable shows the rows. What has the focus is drawn anew and gets it back.
function drawTable(rows) {
  const now = JSON.stringify([rows, address.get("sort")]);
  if (now === drawn && rows.every((r) => r.outcome)) return;
  drawn = now;
  const focused = document.activeElement?.dataset.focus;
  const columns = shown(address);
  const heads = columns.map(({ name, key, number }) => {
    const head = key && !savedPlace ? el("button", { type: "button", class: "sort", "data-focus": "sort " + key, "data-sort": key, click: () => sortBy(key) }, name) : name;
    return number ? { number: head } : head;
  });
  const cells = rows.map((r) => columns.map(({ number, cell }) => (number ? { number: cell(r) } : cell(r))));
  if (!savedPlace) {
    heads.unshift(selection.allBox(rows));
    cells.forEach((row, i) => row.unshift(selection.box(rows[i])));
  }
  $("list").replaceChildren(...table(heads, cells));
  for (const a of $("list").querySelectorAll("tbody a")) a.dataset.focus = a.hash;
  const order = address.get("sort") ?? "";
  const chosen = $("list").querySelector(`[data-sort="${CSS.escape(order.replace("-", ""))}"]`);
  chosen?.closest("th").setAttribute("aria-sort", order.startsWith("-") ? "descending" : "ascending");
  if (focused) $("list").querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  show("none", !rows.length);
}

// sortBy has the server order the list by a column: up, then down, then as it lists them.
function sortBy(key) {
  place("sort", { [key]: "-" + key, ["-" + key]: "" }[address.get("sort")] ?? key);
  pages = 1;
  again();
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

// count draws the histograms again if the list has changed. A server without an index of rollouts has none.
async function count(rows, unindexed) {
  const query = asked();
  query.delete("sort");
  const now = JSON.stringify([String(query), unindexed, rows.map((r) => [r.rollout_id, r.outcome])]);
  if (now === counted) return;
  counted = now;
  const counts = savedPlace || query.get("status") === "running" ? null : await get("counts?" + query).catch(() => null);
  if (now !== counted) return; // the list is another one by now
  $("counts").replaceChildren(...(counts?.rollouts ? histograms(counts, (filters) => select(new URLSearchParams({ ...Object.fromEntries(address), ...filters }))) : []));
  $("total").replaceChildren(...total(counts, unindexed));
}

// total says how many rollouts there are.
function total(counts, unindexed) {
  if (!counts) return [];
  const running = counts.running ? el("button", { type: "button", class: "quiet-button", click: () => select(new URLSearchParams({ ...Object.fromEntries(address), status: "running" })) }, `${counts.running.toLocaleString("en")} running`) : null;
  const late = Math.max(unindexed, counts.unindexed ?? 0);
  return [`${counts.rollouts.toLocaleString("en")} ended`, running, late ? ` · ${late.toLocaleString("en")} more are not counted yet` : null].filter(Boolean);
}
