// Reset, step and state of this tab's session, and their results.
import { get, post, random, watch } from "./api.js";
import { $, complain, el, pretty, show } from "./dom.js";
import { blame, fields, forgive } from "./form.js";

let watching = false;

/** playground creates the form once, so that its inputs are kept while another page is shown. */
export async function playground() {
  if ($("fields").hasChildNodes()) return;
  const about = await get("web/metadata");
  $("name").textContent = about.name;
  $("description").textContent = about.description;
  show("readme", about.readme_content !== null);
  $("readme").querySelector("pre").textContent = about.readme_content ?? "";
  const [all, ready] = await Promise.all([tools(), examples()]);
  let form;
  const choose = () => {
    $("fields").replaceChildren();
    form = fields($("fields"), all.find((t) => t.name === $("tool").value).inputSchema);
    $("example").value = "";
    show("example-field", runs($("tool").value));
  };
  $("tool").replaceChildren(...all.map(({ name }) => el("option", { selected: name === "run_rollout" }, name)));
  $("tool").onchange = choose;
  $("example").replaceChildren(el("option", { value: "" }, "an empty form"), ...ready.map(({ name }) => el("option", { value: name }, "the example " + name)));
  $("example").onchange = () => form.fill(ready.find(({ name }) => name === $("example").value)?.arguments ?? {});
  choose();
  $("step").onsubmit = (event) => {
    event.preventDefault();
    act(event.submitter, () => step($("tool").value, form.read()));
  };
  $("reset").onclick = (event) => act(event.target, () => reset());
  $("state").onclick = (event) => act(event.target, () => state());
}

/** tools asks for the tools of the environment, each with the schema of its arguments. */
export const tools = async () => (await post("mcp", { jsonrpc: "2.0", id: 1, method: "tools/list" })).result.tools;

/** examples asks for the example tasks, each with its arguments. */
export const examples = () => get("examples").then((list) => list.examples, () => []);

const runs = (tool) => ["run_rollout", "start_rollout"].includes(tool);

/** act runs one request of a button at a time, and shows its error. */
async function act(button, request) {
  complain("");
  forgive($("fields"));
  button.disabled = true;
  try {
    follow();
    await request();
  } catch (error) {
    $("status").textContent = "Refused.";
    if (!blame($("fields"), error.message)) complain(error.message);
  } finally {
    button.disabled = false;
  }
}

async function reset() {
  raw(await post("web/reset", {}));
  $("status").textContent = "A new episode has begun.";
}

async function state() {
  const now = await get("web/state");
  raw(now);
  $("status").textContent = `Episode ${now.episode_id}: ${now.step_count} steps, ${now.rollouts_completed} rollouts.`;
}

async function step(tool, args) {
  const starts = runs(tool);
  if (starts) args.rollout_id ??= "web-" + random();
  const what = starts ? el("a", { href: "#/rollouts/" + encodeURIComponent(args.rollout_id) }, args.rollout_id) : tool;
  $("status").replaceChildren("Running ", what, " …");
  const answer = await post("web/step", { action: { type: "call_tool", tool_name: tool, arguments: args } });
  const { error, result } = answer.observation;
  if (error) {
    raw(answer);
    $("status").textContent = "Failed.";
    if (!blame($("fields"), error.message)) complain(error.error_type + ": " + error.message);
    return;
  }
  const done = JSON.parse(result.data);
  raw(done);
  $("status").replaceChildren(what, done.outcome ? ` ${done.outcome}, reward ${done.reward ?? "none"}` : " has answered.");
}

function raw(value) {
  $("raw").textContent = pretty(value);
}

/** follow shows the log live from the first request on: opening the page alone begins no session. */
function follow() {
  if (watching) return;
  watching = true;
  watch(({ action_logs: log }) => $("log").replaceChildren(...log.map(line)), () => (watching = false));
}

function line({ timestamp, action, observation, step_count: count }) {
  const failed = observation.error;
  const what = action.tool_name ?? action.type;
  const detail = failed ? failed.error_type + ": " + failed.message : "done";
  return el("li", { value: count }, el("code", {}, timestamp.slice(11, 19)), ` ${what} `, el("span", { class: failed ? "bad" : "good" }, detail));
}
