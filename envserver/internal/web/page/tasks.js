// One task: its rollouts over time.
import { get } from "./api.js";
import { curves, versions } from "./curves.js";
import { $, el, facts } from "./dom.js";
import { keep, seldom } from "./keep.js";
import { visible } from "./text.js";

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
