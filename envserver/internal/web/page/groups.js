// Groups of rollouts: the list, and one group with the rewards of its rollouts.
import { get, pages, post } from "./api.js";
import { compare } from "./compare.js";
import { $, complain, el, facts, link, section, show, table } from "./dom.js";
import { listForm } from "./filters.js";
import { keep } from "./keep.js";
import { outcome, rolloutLink, taskLink } from "./columns.js";
import { visible } from "./text.js";

/** groupLink returns a link to a group's page. */
export const groupLink = (id) => link("groups", id);

/** list shows the groups that the query selects, and keeps them fresh until another page is opened. */
export async function list(query) {
  let shown = 1; // pages
  listForm($("group-filter"), "#/groups", query, () => again());
  const draw = async (signal) => {
    const { items, more } = await pages("groups", Object.fromEntries(query), shown);
    if (signal.aborted) return;
    $("group-list").replaceChildren(...table(["Group", "Task", "Outcome", { number: "Size" }, { number: "Mean reward" }, { number: "Replaced" }], items.map(row)));
    show("groups-more", more);
  };
  const again = () => keep(draw).catch((error) => complain(error.message));
  $("groups-more").onclick = () => {
    shown++;
    again();
  };
  await keep(draw);
}

function row(g) {
  const mean = g.mean_reward?.toFixed(3) ?? "";
  return [groupLink(g.group_id), g.task_id ? taskLink(g.task_id) : "", standing(g), { number: g.size ?? "" }, { number: mean }, { number: g.replaced ?? "" }];
}

/** group shows one group. */
export async function group(id) {
  const path = "groups/" + encodeURIComponent(id);
  // The button is not redrawn, so that no click is lost.
  const abort = el("button", { type: "button", hidden: true, click: () => end(abort, path, draw) }, "Abort");
  const live = el("div");
  const side = el("div");
  let ended = 0; // members for which the comparison was made: it is kept while the group does not change
  const draw = async () => {
    const state = await get(path);
    abort.hidden = Boolean(state.outcome);
    live.replaceChildren(...details(state));
    const now = state.members.filter((m) => m.outcome).length;
    if (now !== ended) side.replaceChildren(compare(state.members) ?? "");
    ended = now;
  };
  $("group").replaceChildren(el("h2", { id: "group-title" }, id), abort, live, side);
  await keep(draw);
}

async function end(button, path, draw) {
  button.disabled = true;
  await post(path + "/abort", { reason: "abort requested on the web page" }).then(draw).catch((error) => complain(error.message));
  button.disabled = false;
}

function details(g) {
  const s = g.statistics;
  const passes = s.n ? [`${s.pass} of ${s.n}`, ...Object.entries(g.pass_at_k).map(([k, p]) => `pass@${k} ${p.toFixed(3)}`)].join(", ") : "";
  return [
    facts([
      ["Task", g.task_id && taskLink(g.task_id)], ["Outcome", standing(g)], ["Error", g.error && visible(g.error)], ["Rollouts", `${g.size}, ${g.members.filter((m) => m.outcome).length} ended, ${s.n} with a reward`],
      ["Rewards", s.n ? `mean ${s.mean.toFixed(3)}, standard deviation ${s.std.toFixed(3)}` : "none"], ["Passed", passes], ["Replaced", g.replaced || ""],
    ]),
    ...section("Rollouts", ["Rollout", "Outcome", { number: "Reward" }, { number: "Advantage" }, "Replaces", "Error"], members(g)),
  ];
}

function members(g) {
  let next = 0; // of the advantages, which the members with a reward have, in their order
  return g.members.map((m) => [
    rolloutLink(m.rollout_id), outcome(m), { number: m.reward }, { number: m.reward === null ? null : g.advantages[next++]?.toFixed(3) },
    el("span", {}, (m.lost ?? []).flatMap((id, i) => [i ? ", " : "", rolloutLink(id)])), visible(m.error ?? ""),
  ]);
}

function standing(g) {
  if (!g.outcome) return "running";
  return el("span", { class: { complete: "good", aborted: "" }[g.outcome] ?? "bad" }, g.outcome.replaceAll("_", " "));
}
