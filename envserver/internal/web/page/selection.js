// The rollouts of the list that are selected, and what can be done with them.
import { abort, again, button, gradable, regrade, sure } from "./acts.js";
import { download } from "./api.js";
import { $, complain, el, show } from "./dom.js";

const most = 100; // of one file

const selected = new Map(); // by id
let redraw = () => {}; // of the list

/** follow shows the selection above a list, which it draws again when it is cleared. */
export function follow(redrawList) {
  redraw = redrawList;
  draw();
}

/** box returns the checkbox of a rollout. The selection has the rollout as it was listed last. */
export function box(r) {
  if (selected.has(r.rollout_id)) selected.set(r.rollout_id, r);
  const change = (event) => {
    event.target.checked ? selected.set(r.rollout_id, r) : selected.delete(r.rollout_id);
    draw();
  };
  return el("input", { type: "checkbox", "aria-label": "Select " + r.rollout_id, "data-focus": "select " + r.rollout_id, checked: selected.has(r.rollout_id), change });
}

/** allBox returns the checkbox of all rows. */
export function allBox(rows) {
  const change = (event) => {
    rows.forEach((r) => (event.target.checked ? selected.set(r.rollout_id, r) : selected.delete(r.rollout_id)));
    draw();
    redraw();
  };
  return el("input", { type: "checkbox", "aria-label": "Select all rows", "data-focus": "select all", checked: rows.length > 0 && rows.every((r) => selected.has(r.rollout_id)), change });
}

// draw shows what can be done with the selection.
function draw() {
  const all = [...selected.values()];
  const [running, ended] = [all.filter((r) => !r.outcome), all.filter((r) => r.outcome)];
  const ids = ended.map((r) => r.rollout_id);
  const fail = (error) => complain(error.message);
  const acts = [
    ended.length === 2 && all.length === 2 && el("a", { class: "button", href: "#/compare/" + ids.join() }, "Compare"),
    ended.length > 0 && button(ended.length > most ? `Export the first ${most}` : "Export", () => download("page?ids=" + ids.slice(0, most).join(), "rollouts.html"), fail),
    running.length > 0 && button(`Abort ${count(running)}`, async () => {
      if (await sure(`Abort ${count(running)}?`, "Abort")) await each(running, (r) => abort(r.rollout_id).then((a) => (a.aborted ? "aborted" : "had ended")));
    }, fail),
    ended.some(gradable) && button(`Grade ${count(ended.filter(gradable))} again`, () => each(ended.filter(gradable), grade), fail),
    ended.length > 0 && button(`Run ${count(ended)} again`, async () => {
      if (await sure(`Start ${count(ended)} again?`, "Run")) await each(ended, (r) => again(r.rollout_id).then((s) => el("a", { href: "#/rollouts/" + s.rollout_id }, s.rollout_id)));
    }, fail),
    button("Clear", () => {
      selected.clear();
      draw();
      redraw();
    }, fail),
  ];
  $("selection").replaceChildren(el("span", {}, el("b", {}, String(all.length)), " selected"), ...acts.filter(Boolean), done);
  show("selection", all.length > 0);
}

const count = (all) => (all.length === 1 ? "one rollout" : all.length + " rollouts");
const done = el("div", { role: "status" });

// each does something with one rollout after the other, and shows what came of it.
async function each(all, act) {
  done.replaceChildren();
  for (const r of all) {
    const line = el("p", {}, r.rollout_id + ": ", el("span", { class: "quiet" }, "…"));
    done.append(line);
    line.lastChild.replaceWith(await act(r).then((what) => el("span", {}, what), (error) => el("span", { class: "bad" }, error.message)));
  }
}

const grade = async (r) => {
  const g = await regrade(r.rollout_id);
  return g.error || `reward ${g.reward ?? "none"}, was ${r.reward ?? "none"}${g.reward === r.reward ? "" : ": open the rollout to make it its grade"}`;
};
