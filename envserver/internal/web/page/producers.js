// Producers and deliveries, for operators.
import { get, pages, post } from "./api.js";
import { curves, versions } from "./curves.js";
import { $, complain, el, facts, link, section, show, table } from "./dom.js";
import { listForm } from "./filters.js";
import { groupLink } from "./groups.js";
import { keep, seldom } from "./keep.js";
import { visible } from "./text.js";

const maxItems = 100; // of a list

/** list shows producers, and the deliveries that the query selects, and keeps them fresh until another page is opened. */
export async function list(query) {
  const shown = { producers: 1, deliveries: 1 }; // pages
  listForm($("delivery-filter"), "#/producers", query, () => again());
  const draw = async (signal) => {
    const [producers, deliveries] = await Promise.all([pages("producers", {}, shown.producers), pages("deliveries", Object.fromEntries(query), shown.deliveries)]);
    if (signal.aborted) return;
    $("producer-list").replaceChildren(...table(["Producer", "Phase", "Outcome", "Task set", "Started"], producers.items.map(row)));
    $("delivery-list").replaceChildren(...table(["Group", "Sink", "State", { number: "Tries" }, "Reason"], deliveries.items.map(delivery)));
    show("producers-more", producers.more);
    show("deliveries-more", deliveries.more);
  };
  const again = () => keep(draw).catch((error) => complain(error.message));
  for (const name of Object.keys(shown)) {
    $(name + "-more").onclick = () => {
      shown[name]++;
      again();
    };
  }
  await keep(draw);
}

/** producer shows one producer. */
export async function producer(id) {
  const path = "producers/" + encodeURIComponent(id);
  // The buttons are not redrawn, so that no click is lost.
  const [live, lists] = [el("div"), el("div")];
  const history = el("div"); // redrawn only if it has changed, so that an open table stays open
  const rollouts = { producer_id: id };
  const listOf = (filters = {}) => "#/rollouts?" + new URLSearchParams({ ...rollouts, ...filters });
  const count = seldom(() => get("counts?" + new URLSearchParams(rollouts)).catch(() => null)); // a server without an index has none
  const delivered = seldom(() => get("deliveries?" + new URLSearchParams({ producer_id: id, limit: maxItems })));
  let drawn = "";
  const draw = async () => {
    const [state, counts, backlog] = await Promise.all([get(path), count(), delivered()]);
    const now = JSON.stringify(counts?.periods);
    if (now !== drawn && counts) history.replaceChildren(el("h2", {}, "Rollouts over time"), el("p", {}, el("a", { href: listOf() }, "All of them")), curves(counts.periods, listOf), versions(counts.versions, listOf) ?? "");
    drawn = now;
    for (const [button, open] of buttons) button.hidden = !open(state);
    const [summary, ...sections] = standing(state, backlog.deliveries, backlog.next);
    live.replaceChildren(summary);
    lists.replaceChildren(...sections);
  };
  const button = (text, to, body, open) => [el("button", { type: "button", hidden: true, click: (event) => change(event.target, path + to, body, draw) }, text), open];
  const buttons = [
    button("Pause", "/change", { paused: true }, (s) => s.phase === "running"),
    button("Resume", "/change", { paused: false }, (s) => s.phase === "paused"),
    button("Stop when all is delivered", "/change", { stop: true }, (s) => s.phase === "running" || s.phase === "paused"),
    button("Abort", "/abort", { reason: "abort requested on the web page" }, (s) => s.phase !== "done"),
  ];
  $("producer").replaceChildren(el("h2", { id: "producer-title" }, id), el("div", { class: "row" }, buttons.map(([b]) => b)), live, history, lists);
  await keep(draw);
}

async function change(button, path, body, draw) {
  button.disabled = true;
  await post(path, body).then(draw).catch((error) => complain(error.message));
  button.disabled = false;
}

function row(p) {
  return [link("producers", p.producer_id), p.phase, p.outcome, visible(p.name ?? ""), when(p.started_at)];
}

function delivery(d) {
  const tone = { delivered: "good", refused: "bad" }[d.state] ?? (d.reason ? "bad" : "");
  return [groupLink(d.group_id), d.sink, el("span", { class: tone }, d.state), { number: d.tries }, visible(d.reason ?? "")];
}

const when = (time) => new Date(time).toLocaleString();

function standing(s, deliveries, cut) {
  const c = s.counts;
  const [running, outbox, evaluated] = [s.running ?? [], s.outbox ?? [], s.evaluated ?? []];
  const left = { skipped: c.skipped, refused: c.refused, failed: c.failed, aborted: c.aborted, ...c.filtered };
  const lost = Object.values(left).reduce((sum, n) => sum + n, 0);
  const list = [
    ["Phase", `${s.phase} ${s.outcome ?? ""}`], [s.phase === "done" ? "Reason" : "Waiting", s.waiting && visible(s.waiting)], ["Error", s.error && visible(s.error)], ["Task set", visible(s.name ?? "")], ["Sink", s.sink],
    ["Step", s.step + bound(s.bounds.total_steps)], ["Cursor", `group ${s.cursor.number}`],
    ["Groups", `${c.started} started, ${running.length} in flight, ${outbox.length} to be delivered, ${c.delivered} delivered`],
    ["Delivered with a stale mark", c.marked], ["Not delivered", `${lost}${percent(lost, lost + c.delivered)}${names(left)}`],
    ["Rollouts in flight", running.reduce((sum, g) => sum + g.left, 0) + bound(s.bounds.concurrency)],
    ["Batches ahead of the trainer", "at most " + (s.bounds.max_batches_offpolicy || "any number")], ["Run again or replaced", `${c.again} groups, ${c.replaced} rollouts`],
  ];
  return [
    facts(list),
    ...section("Groups in flight", ["Group", { number: "Number" }, { number: "Rollouts left" }, "For", "Started"],
      running.map((g) => [groupLink(g.group_id), { number: g.cursor.number }, { number: g.left }, g.eval ? "evaluation" : "training", when(g.started_at)])),
    ...section("Deliveries", ["Group", "Sink", "State", { number: "Tries" }, "Reason"], deliveries.map(delivery)),
    cut ? el("p", {}, "These are its first deliveries: those that have not ended, then the oldest. ", el("a", { href: "#/producers?" + new URLSearchParams({ producer_id: s.producer_id }) }, "All of them")) : "",
    ...section("Evaluations", [{ number: "Step" }, { number: "Mean reward" }, { number: "Rollouts" }, { number: "Passed" }],
      evaluated.map((e) => [e.step, e.rollouts ? (e.sum / e.rollouts).toFixed(3) : "", e.rollouts, e.passed].map((number) => ({ number })))),
  ];
}

const bound = (n) => (n ? ` of ${n}` : "");
const percent = (n, all) => (n ? ` (${((100 * n) / all).toFixed(1)} % of those that ended)` : "");
const names = (left) => Object.entries(left).filter(([, n]) => n > 0).map(([name, n]) => `, ${n} ${name.replaceAll("_", " ")}`).join("");
