// A form made from a tool's JSON schema.
import { el, pretty, reveal } from "./dom.js";

const long = /instruction|script|shell|message|code/;
const secret = ["api_key", "hf_token"];
// The usual arguments, in their order; the others are folded by subject.
const usual = ["instruction", "agent", "endpoint", "model", "base_url", "api_key", "setup", "verify", "agent_timeout_s", "task_id"];
const subjects = [
  ["Files and setup", ["upload_files", "uploads", "setup_shell", "solution", "steps"]],
  ["Grading", ["test_script", "test_files", "verifier", "reward_range", "reward_key", "reward_strategy", "on_timeout", "no_verify"]],
  ["Agent and limits", ["limits", "react", "episode", "messages", "mode"]],
  ["Sandbox and network", ["sandbox", "template", "network", "allow_network", "require_sandbox", "require_stateful_sandbox"]],
  ["Training and identity", ["purpose", "group_id", "rollout_id", "on_disconnect"]],
  ["Model and sampling", null], // all others
];

const types = (schema) => [schema.type].flat();

/**
 * fields adds inputs for the schema's arguments to a node, and returns functions that read and fill them. prefix is that
 * of their ids; own has functions that make the inputs of some arguments.
 */
export function fields(node, schema, { prefix = "field-", own = {} } = {}) {
  const folds = subjects.map(([subject]) => el("details", {}, el("summary", {}, subject)));
  const place = (name) => (usual.includes(name) ? node : folds[subjects.findIndex(([, names]) => !names || names.includes(name))]);
  const rank = (name) => (usual.includes(name) ? usual.indexOf(name) : usual.length);
  const all = Object.entries(schema.properties).sort(([a], [b]) => rank(a) - rank(b));
  const made = all.map(([name, property]) => {
    const [item, read, write] = field(name, property, { required: (schema.required ?? []).includes(name), prefix, make: own[name] ?? control });
    place(name).append(item);
    return [name, read, write];
  });
  node.append(...folds.filter((fold) => fold.childElementCount > 1));
  // the browser cannot show what it finds wrong in a folded field
  node.addEventListener("invalid", (event) => reveal(event.target, node), true);
  return { read: () => collect(made), fill: (values) => spread(made, values) };
}

/** blame shows an error such as "limits.turns: must be …" at its field; false: it names none. */
export function blame(node, message) {
  forgive(node);
  const name = /^(?:[A-Za-z]+: )?([a-z_]+(?:\.[a-z_]+)*)(?:\[\d+\])?: /.exec(message)?.[1];
  const input = name && (node.querySelector(`[name="${name}"]`) ?? node.querySelector(`[name="${name.split(".")[0]}"]`));
  if (!input) return false;
  reveal(input, node);
  input.setAttribute("aria-invalid", "true");
  input.closest(".field").append(el("p", { class: "bad", role: "alert" }, message));
  input.focus();
  return true;
}

/** forgive removes the errors at fields. */
export function forgive(node) {
  node.querySelectorAll(".field > .bad").forEach((error) => error.remove());
  node.querySelectorAll("[aria-invalid]").forEach((input) => input.removeAttribute("aria-invalid"));
}

/** collect leaves out empty inputs, for which the server has defaults. */
function collect(made) {
  const entries = made.map(([name, read]) => {
    try {
      return [name, read()];
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

// spread gives each input its value; those without one are emptied.
function spread(made, values) {
  for (const [name, , write] of made) write(values?.[name] ?? undefined);
}

function field(name, schema, { required = false, prefix, make = control }) {
  if (schema.properties) return group(name, schema, prefix);
  const id = prefix + name;
  const hint = id + "-hint";
  const attributes = { id, name, required, "aria-describedby": hint, placeholder: schema.default === undefined ? null : String(schema.default) };
  const [input, read, write] = make(name, schema, attributes);
  const label = el("label", { for: id }, name.replaceAll("_", " ") + (required ? " *" : ""));
  return [el("div", { class: "field" }, label, input, el("small", { id: hint }, schema.description ?? "")), read, write];
}

function group(name, schema, prefix) {
  const box = el("fieldset", {}, el("legend", {}, name), el("small", {}, schema.description ?? ""));
  const made = Object.entries(schema.properties).map(([inner, property]) => {
    const [item, read, write] = field(name + "." + inner, property, { prefix });
    box.append(item);
    return [inner, read, write];
  });
  return [box, () => {
    const value = collect(made);
    return Object.keys(value).length ? value : undefined;
  }, (values) => spread(made, values)];
}

function control(name, schema, attributes) {
  const kinds = types(schema);
  if (schema.enum) return choice(attributes, schema.enum.map((v) => [v, v]), (v) => v);
  if (kinds.includes("boolean")) return choice(attributes, [["true", "yes"], ["false", "no"]], (v) => v === "true");
  // such as 2GiB, or a number
  if (!kinds.includes("string") && (kinds.includes("integer") || kinds.includes("number"))) return number(schema, kinds, attributes);
  if (kinds.includes("array")) return text("textarea", { ...attributes, placeholder: "one per line" }, (v) => list(v, schema), lines);
  if (kinds.includes("object")) return text("textarea", { ...attributes, placeholder: '{"name": "text"}' }, JSON.parse, pretty);
  if (long.test(name)) return text("textarea", attributes, (v) => v);
  return text("input", { ...attributes, type: secret.includes(name) ? "password" : "text", autocomplete: "off" }, (v) => v);
}

function choice(attributes, options, convert) {
  const empty = attributes.placeholder ? "default: " + attributes.placeholder : "default";
  const input = el("select", { ...attributes, placeholder: null }, el("option", { value: "" }, empty), options.map(([value, label]) => el("option", { value }, label)));
  return [input, () => (input.value === "" ? undefined : convert(input.value)), (value) => (input.value = value === undefined ? "" : String(value))];
}

function number(schema, kinds, attributes) {
  const step = kinds.includes("integer") ? "1" : "any";
  return text("input", { ...attributes, type: "number", step, min: schema.minimum, max: schema.maximum }, Number);
}

function text(tag, attributes, convert, show = String) {
  const input = el(tag, attributes);
  return [input, () => (input.value.trim() === "" ? undefined : convert(input.value)), (value) => (input.value = value === undefined ? "" : show(value))];
}

// list reads one item per line, or a list of JSON: an item may be an object, or have lines of its own.
function list(text, schema) {
  try {
    const all = JSON.parse(text);
    if (Array.isArray(all)) return all;
  } catch {
    // lines, such as [ -f file ]
  }
  const all = text.split("\n").filter((line) => line.trim() !== "");
  return types(schema.items ?? {}).some((t) => t === "number" || t === "integer") ? all.map(Number) : all;
}

const lines = (all) => (all.every((item) => typeof item !== "object" && String(item).trim() !== "" && !String(item).includes("\n")) && !String(all[0]).startsWith("[") ? all.join("\n") : pretty(all));
