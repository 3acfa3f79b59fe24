// A form made from a tool's JSON schema.
import { el } from "./dom.js";

const long = /instruction|script|shell|message|code/;
const secret = ["api_key", "hf_token"];
// The arguments of a simple rollout; the others are folded.
const first = ["instruction", "endpoint", "verify"];

const types = (schema) => [schema.type].flat();

/** fields adds inputs for the schema's arguments to a node, and returns a function that reads them. */
export function fields(node, schema) {
  const more = el("details", {}, el("summary", {}, "More arguments"));
  const readers = Object.entries(schema.properties).map(([name, property]) => {
    const required = (schema.required ?? []).includes(name);
    const [item, read] = field(name, property, required);
    (first.includes(name) ? node : more).append(item);
    return [name, read];
  });
  node.append(more);
  return () => collect(readers);
}

/** collect leaves out empty inputs, for which the server has defaults. */
function collect(readers) {
  const entries = readers.map(([name, read]) => {
    try {
      return [name, read()];
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

function field(name, schema, required) {
  if (schema.properties) return group(name, schema);
  const id = "field-" + name;
  const hint = id + "-hint";
  const attributes = { id, name, required, "aria-describedby": hint, placeholder: schema.default === undefined ? null : String(schema.default) };
  const [input, read] = control(name, schema, attributes);
  const label = el("label", { for: id }, name.replaceAll("_", " ") + (required ? " *" : ""));
  return [el("div", { class: "field" }, label, input, el("small", { id: hint }, schema.description ?? "")), read];
}

function group(name, schema) {
  const box = el("fieldset", {}, el("legend", {}, name), el("small", {}, schema.description ?? ""));
  const readers = Object.entries(schema.properties).map(([inner, property]) => {
    const [item, read] = field(name + "." + inner, property, false);
    box.append(item);
    return [inner, read];
  });
  return [box, () => {
    const value = collect(readers);
    return Object.keys(value).length ? value : undefined;
  }];
}

function control(name, schema, attributes) {
  const kinds = types(schema);
  if (schema.enum) return choice(attributes, schema.enum.map((v) => [v, v]), (v) => v);
  if (kinds.includes("boolean")) return choice(attributes, [["true", "yes"], ["false", "no"]], (v) => v === "true");
  if (kinds.includes("integer") || kinds.includes("number")) return number(schema, kinds, attributes);
  if (kinds.includes("array")) return text("textarea", { ...attributes, placeholder: "one per line" }, (v) => v.split("\n").filter((line) => line.trim() !== ""));
  if (kinds.includes("object")) return text("textarea", { ...attributes, placeholder: '{"name": "text"}' }, JSON.parse);
  if (long.test(name)) return text("textarea", attributes, (v) => v);
  return text("input", { ...attributes, type: secret.includes(name) ? "password" : "text", autocomplete: "off" }, (v) => v);
}

function choice(attributes, options, convert) {
  const empty = attributes.placeholder ? "default: " + attributes.placeholder : "default";
  const input = el("select", { ...attributes, placeholder: null }, el("option", { value: "" }, empty), options.map(([value, label]) => el("option", { value }, label)));
  return [input, () => (input.value === "" ? undefined : convert(input.value))];
}

function number(schema, kinds, attributes) {
  const step = kinds.includes("integer") ? "1" : "any";
  return text("input", { ...attributes, type: "number", step, min: schema.minimum, max: schema.maximum }, Number);
}

function text(tag, attributes, convert) {
  const input = el(tag, attributes);
  return [input, () => (input.value.trim() === "" ? undefined : convert(input.value))];
}
