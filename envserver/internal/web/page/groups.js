// Groups of rollouts: the list, and one group with the rewards of its rollouts.
import { get, post } from "./api.js";
import { compare } from "./compare.js";
import { $, complain, el, facts, link, section, show, table } from "./dom.js";
import { keep } from "./keep.js";
import { outcome, rolloutLink, taskLink } from "./columns.js";

/** groupLink returns a link to a group's page. */
export const groupLink = (id) => link("groups", id);

/** list shows the groups that the query selects, and keeps them fresh until another page is opened. */
export async function list(query) {
  let pages = 1;
  const form = $("group-filter");
  for (const { name } of [...form.elements].filter((field) => field.name)) form.elements[name].value = query.get(name) ?? "";
  const draw = async () => {
    const rows = [];
    let cursor = "";
    for (let page = 0; page < pages && (page === 0 || cursor); page++) {
      const found = await get("groups?" + new URLSearchParams({ ...Object.fromEntries(query), limit: 100, ...(cursor && { cursor }) }));
      rows.push(...found.groups.map(row));
      cursor = found.next ?? "";
    }
    $("group-list").replaceChildren(...table(["Group", "Task", "Outcome", { number: "Size" }, { number: "Mean reward" }, { number: "Replaced" }], rows));
    show("groups-more", cursor !== "");
  };
  const again = () => draw().catch((error) => complain(error.message));
  $("groups-more").onclick = () => {
    pages++;
    again();
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    const place = "#/groups" + (wanted.size ? "?" + wanted : "");
    location.hash === place ? again() : (location.hash = place);
  };
  await keep(draw);
}

function row(g) {
  const mean = g.mean_reward?.toFixed(3) ?? "";
  return [groupLink(g.group_id), g.task_id, standing(g), { number: g.size ?? "" }, { number: mean }, { number: g.replaced ?? "" }];
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
      ["Task", g.task_id && taskLink(g.task_id)], ["Outcome", standing(g)], ["Error", g.error], ["Rollouts", `${g.size}, ${g.members.filter((m) => m.outcome).length} ended, ${s.n} with a reward`],
      ["Rewards", s.n ? `mean ${s.mean.toFixed(3)}, standard deviation ${s.std.toFixed(3)}` : "none"], ["Passed", passes], ["Replaced", g.replaced || ""],
    ]),
    ...section("Rollouts", ["Rollout", "Outcome", { number: "Reward" }, { number: "Advantage" }, "Replaces", "Error"], members(g)),
  ];
}

function members(g) {
  let next = 0; // of the advantages, which the members with a reward have, in their order
  return g.members.map((m) => [
    rolloutLink(m.rollout_id), outcome(m), { number: m.reward }, { number: m.reward === null ? null : g.advantages[next++]?.toFixed(3) },
    el("span", {}, (m.lost ?? []).flatMap((id, i) => [i ? ", " : "", rolloutLink(id)])), m.error,
  ]);
}

function standing(g) {
  if (!g.outcome) return "running";
  return el("span", { class: { complete: "good", aborted: "" }[g.outcome] ?? "bad" }, g.outcome.replaceAll("_", " "));
}
