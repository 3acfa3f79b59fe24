// The form that starts a rollout: empty, with a task of a set, or like another rollout.
import { get, post } from "./api.js";
import { $, complain, el, show } from "./dom.js";
import { choice, endpoints } from "./endpoints.js";
import { blame, fields, forgive } from "./form.js";
import { tools } from "./playground.js";
import { visible } from "./text.js";

let form = null; // made once, so that its inputs are kept while another page is shown
let filled = ""; // the preset with which it was filled

/** run shows the form; query names what it is filled with. */
export async function run(query) {
  form ??= await make();
  const preset = String(query);
  if (!preset || preset === filled) return;
  filled = preset;
  forgive($("run-fields"));
  await fill(query);
}

async function make() {
  const [all, known, sets] = await Promise.all([tools(), endpoints(), get("task_sets").then((list) => list.task_sets, () => [])]);
  const schema = all.find((t) => t.name === "start_rollout").inputSchema;
  const made = fields($("run-fields"), schema, { prefix: "run-", own: known ? { endpoint: choice(known) } : {} });
  $("preset").replaceChildren(el("option", { value: "" }, "an empty form"), el("option", { value: "like", hidden: true }, "another rollout"), ...sets.map((name) => el("option", { value: name }, "a task of " + name)));
  $("preset").onchange = () => open({ task_set: $("preset").value });
  $("preset-task").onchange = () => open({ task_set: $("preset").value, task: $("preset-task").value });
  $("run-form").onsubmit = (event) => {
    event.preventDefault();
    start(event.submitter, made);
  };
  return made;
}

// open goes to the form with a preset; without one it is emptied.
function open(preset) {
  const query = new URLSearchParams(Object.entries(preset).filter(([, value]) => value));
  if (!query.size) {
    form.fill({});
    note("");
    show("preset-task-field", false);
    filled = "";
  }
  location.hash = "#/run" + (query.size ? "?" + query : "");
}

async function fill(query) {
  const [like, set, task] = ["like", "task_set", "task"].map((name) => query.get(name));
  show("preset-task-field", Boolean(set));
  if (set) await choose(set, task ?? "");
  if (like) {
    const { arguments: args, left_out: missing } = await get(`rollouts/${encodeURIComponent(like)}/arguments`);
    form.fill(args);
    $("preset").value = "like";
    note("Filled like ", el("a", { href: "#/rollouts/" + encodeURIComponent(like) }, like), ". ", missing ? `The form does not have its ${missing.join(", ").replaceAll("_", " ")}: Run again on its page keeps them.` : "");
  } else if (task) {
    form.fill(await get(`task_sets/${encodeURIComponent(set)}/arguments?` + new URLSearchParams({ task })));
    note(`Filled with the task ${visible(task)}. A task names no endpoint: choose one below.`);
  } else note("Choose a task.");
}

// choose shows the tasks of a set.
async function choose(set, task) {
  $("preset").value = set;
  $("preset-task").value = task;
  const { tasks } = await get(`task_sets/${encodeURIComponent(set)}`);
  $("preset-tasks").replaceChildren(...tasks.map((name) => el("option", { value: name })));
}

const note = (...parts) => $("preset-note").replaceChildren(...parts);

async function start(button, { read }) {
  complain("");
  forgive($("run-fields"));
  button.disabled = true;
  try {
    const { rollout_id: id } = await post("rollouts", read());
    filled = ""; // the next one begins with its preset, not with what was changed
    location.hash = "#/rollouts/" + encodeURIComponent(id);
  } catch (error) {
    if (!blame($("run-fields"), error.message)) complain(error.message);
  } finally {
    button.disabled = false;
  }
}
