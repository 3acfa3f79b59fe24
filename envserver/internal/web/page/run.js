// The form that starts a rollout: empty, with an example, with a task of a set, or like another rollout.
import { get, post } from "./api.js";
import { $, complain, el, show } from "./dom.js";
import { choice, endpoints } from "./endpoints.js";
import { blame, fields, forgive } from "./form.js";
import { examples, tools } from "./playground.js";
import { visible } from "./text.js";

let given = []; // the examples
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
  const [all, known, ready, sets] = await Promise.all([tools(), endpoints(), examples(), get("task_sets").then((list) => list.task_sets, () => [])]);
  const schema = all.find((t) => t.name === "start_rollout").inputSchema;
  const made = fields($("run-fields"), schema, { prefix: "run-", own: known ? { endpoint: choice(known) } : {} });
  given = ready;
  const option = (kind) => (name) => el("option", { value: kind + ":" + name }, kind === "example" ? "the example " + name : "a task of " + name);
  $("preset").replaceChildren(el("option", { value: "" }, "an empty form"), el("option", { value: "like", hidden: true }, "another rollout"), ...given.map(({ name }) => name).map(option("example")), ...sets.map(option("task_set")));
  $("preset").onchange = () => {
    const [, kind, name] = /^(\w*):?(.*)$/.exec($("preset").value);
    open({ [kind]: name });
  };
  $("preset-task").onchange = () => open({ task_set: $("preset").value.slice("task_set:".length), task: $("preset-task").value });
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
  const [like, set, task, example] = ["like", "task_set", "task", "example"].map((name) => query.get(name));
  show("preset-task-field", Boolean(set));
  if (set) await choose(set, task ?? "");
  if (like) {
    const { arguments: args, left_out: missing } = await get(`rollouts/${encodeURIComponent(like)}/arguments`);
    form.fill(args);
    $("preset").value = "like";
    note("Filled like ", el("a", { href: "#/rollouts/" + encodeURIComponent(like) }, like), ". ", missing ? `The form does not have its ${missing.join(", ").replaceAll("_", " ")}: Run again on its page keeps them.` : "");
  } else if (example) {
    form.fill(given.find(({ name }) => name === example)?.arguments ?? {});
    $("preset").value = "example:" + example;
    note("Filled with an example, which names no endpoint: choose one below.");
  } else if (task) {
    form.fill(await get(`task_sets/${encodeURIComponent(set)}/arguments?` + new URLSearchParams({ task })));
    note(`Filled with the task ${visible(task)}. A task names no endpoint: choose one below.`);
  } else note("Choose a task.");
}

// choose shows the tasks of a set.
async function choose(set, task) {
  $("preset").value = "task_set:" + set;
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
