// What can be done with rollouts: abort, run again, grade again.
import { get, post } from "./api.js";
import { el } from "./dom.js";

const path = (id) => "rollouts/" + encodeURIComponent(id);

/** abort ends a rollout that runs. */
export const abort = (id) => post(path(id) + "/abort", { reason: "abort requested on the web page" });

/** again starts another rollout with the same task, and returns its state. */
export const again = (id) => post(path(id) + "/again", {});

/** regrade grades the saved work of a rollout again by the verifier that it had, and returns the grade when it is there. */
export async function regrade(id, apply = false) {
  let grade = await post(path(id) + "/regrade", { apply });
  while (!grade.finished_at) grade = await get(`${path(id)}/regrades/${grade.regrade_id}?wait_s=30`);
  return grade;
}

/** gradable reports whether a rollout has ended with work that can be graded. */
export const gradable = (r) => r.phase === "done" && ["completed", "agent_timeout", "budget_exhausted", "verifier_failed"].includes(r.outcome);

/** sure asks whether to do something that cannot be taken back. */
export function sure(question, what) {
  const dialog = el("dialog", { "aria-label": question }, el("p", {}, question), el("form", { method: "dialog", class: "row" }, el("button", { value: "yes", class: "primary" }, what), el("button", { value: "" }, "Cancel")));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((answer) => dialog.addEventListener("close", () => {
    dialog.remove();
    answer(dialog.returnValue === "yes");
  }));
}

/** button returns a button that does one thing at a time. fail gets its error. */
export function button(text, act, fail, attributes = {}) {
  const node = el("button", { type: "button", ...attributes, click: async () => {
    node.disabled = true;
    await Promise.resolve(act()).catch(fail);
    node.disabled = false;
  } }, text);
  return node;
}
