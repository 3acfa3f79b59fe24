// The task sets, and one task: its rollouts over time.
import { get } from "./api.js";
import { taskLink } from "./columns.js";
import { curves, versions } from "./curves.js";
import { $, complain, el, facts, table } from "./dom.js";
import { keep, seldom } from "./keep.js";
import { visible } from "./text.js";

/** sets shows the configured task sets; the tasks of one are loaded when it is opened. */
export async function sets() {
  const { task_sets: all } = await get("task_sets");
  $("sets").replaceChildren(el("h2", { id: "sets-title" }, "Task sets"), ...(all.length ? all.map((name) => set(name, all.length === 1)) : [el("p", { class: "quiet" }, "The server has no task sets: the setting task_sets names them.")]));
}

function set(name, open) {
  const tasks = el("div");
  const item = el("details", { class: "file-item", open }, el("summary", {}, el("b", {}, visible(name))), tasks);
  const load = async () => {
    if (!item.open || tasks.childElementCount) return;
    tasks.replaceChildren(el("p", { class: "quiet" }, "Loading …"));
    try {
      tasks.replaceChildren(...list(name, await get("task_sets/" + encodeURIComponent(name))));
    } catch (error) {
      tasks.replaceChildren();
      complain(error.message);
    }
  };
  item.addEventListener("toggle", load);
  return item;
}

function list(name, { tasks, count }) {
  const run = (task) => el("a", { href: "#/run?" + new URLSearchParams({ task_set: name, task }), "aria-label": `Run ${visible(task)}` }, "Run");
  return [
    el("p", { class: "quiet" }, count > tasks.length ? `The first ${tasks.length.toLocaleString("en")} of ${count.toLocaleString("en")} tasks. ` : `${count.toLocaleString("en")} tasks. `, "A task opens its rollouts over time."),
    el("div", { class: "wide names", tabindex: "0", role: "region", "aria-label": "Tasks of " + visible(name) }, el("table", {}, table(["Task", "Form"], tasks.map((task) => [named(name, task), run(task)])))),
  ];
}

// named links the page of a task of a set. Rollouts have its id, which may differ from its name in the set.
function named(set, task) {
  const link = taskLink(task);
  link.addEventListener("click", async (event) => {
    event.preventDefault();
    const { task_id: id } = await get(`task_sets/${encodeURIComponent(set)}/arguments?` + new URLSearchParams({ task })).catch(() => ({}));
    location.hash = "#/tasks/" + encodeURIComponent(id ?? task);
  });
  return link;
}

/** task shows one task, and keeps it fresh until another page is opened. */
export async function task(id) {
  const listOf = (filters = {}) => "#/rollouts?" + new URLSearchParams({ task_id: id, ...filters });
  const live = el("div");
  $("task").replaceChildren(el("h2", { id: "task-title" }, visible(id)), el("p", {}, el("a", { href: listOf() }, "Its rollouts")), live);
  let drawn = "";
  const count = seldom(() => get("counts?" + new URLSearchParams({ task_id: id })));
  await keep(async () => {
    const counts = await count();
    const now = JSON.stringify(counts);
    if (now === drawn) return; // an open table stays open
    drawn = now;
    const rewarded = counts.periods.reduce((sum, p) => sum + p.rewarded, 0);
    const passed = counts.periods.reduce((sum, p) => sum + p.passed, 0);
    live.replaceChildren(
      facts([["Ended", counts.rollouts.toLocaleString("en")], ["With a reward", rewarded.toLocaleString("en")], ["Passed", rewarded ? `${passed.toLocaleString("en")} (${Math.round((100 * passed) / rewarded)} %)` : ""], ["Running", counts.running ?? ""]]),
      el("h2", {}, "Over time"), curves(counts.periods, listOf), versions(counts.versions, listOf) ?? "");
  });
}
