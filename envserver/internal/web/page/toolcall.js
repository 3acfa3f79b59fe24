// A tool call as what it is: a command with its output, an edit as a difference, a file as code.
import { painter } from "./code.js";
import { diff, paintDiff, patchLines } from "./diff.js";
import { el, seconds } from "./dom.js";
import { block, visible } from "./text.js";

/**
 * toolCall returns a call's node, and functions that add its result and its time. rest is that of block, for arguments that were not sent whole.
 */
export function toolCall(name, text, rest) {
  const args = parse(text);
  const chips = el("span", { class: "chips" });
  const output = el("div", { class: "output" });
  const [title, body] = rest?.bytes || !args ? ["", [block(text, { rest })]] : shape(args);
  const node = el("section", { class: "call" }, el("header", {}, el("b", {}, visible(name || "tool")), el("code", { class: "title" }, visible(title)), chips), body, output);
  let ended = null; // how: {failed, text}; null: it has no result
  let over = false; // the rollout has ended
  const exit = (status) => {
    if (status) ended = { ...ended, failed: true };
    if (!chips.querySelector(".exit")) chips.prepend(el("span", { class: "exit " + (status ? "bad" : "good") }, `exit ${status}`));
  };
  return {
    node,
    /** result shows the call's result; that of a rollout's trace replaces that of its events. */
    result(resultText, resultRest) {
      const answer = resultRest?.bytes ? null : wrapped(resultText);
      const found = answer ? [answer.output, answer.error].filter(Boolean).join("\n") : resultText;
      ended = { ...ended, text: found, cut: Boolean(resultRest?.bytes) || left.test(found) };
      if (Number.isInteger(answer?.exit)) exit(answer.exit);
      if (left.test(found) && !chips.querySelector(".cut")) chips.prepend(el("span", { class: "cut warn" }, "truncated"));
      output.replaceChildren(found ? block(found, { rest: resultRest, paint: resultPainter(args) }) : el("p", { class: "quiet" }, "no output"));
    },
    /** status shows how the call ended; exit may be missing. */
    status({ exit: code, failed }) {
      if (Number.isInteger(code)) exit(code);
      if (failed) this.timing({ failed });
    },
    append(more) {
      const pre = output.querySelector("pre") ?? output.appendChild(el("pre"));
      pre.append(visible(more));
    },
    /** timing shows how long the call took, and whether it failed. */
    timing({ seconds: took, failed, running }) {
      if (running || took !== undefined) chips.querySelector(".took")?.remove();
      if (running && !over) chips.append(el("span", { class: "took running" }, "running"));
      else if (took !== undefined) chips.append(el("span", { class: "took" }, seconds(took)));
      if (failed && !chips.querySelector(".failed")) chips.prepend(el("span", { class: "failed bad" }, "failed"));
      if (failed) {
        node.classList.add("has-failed");
        ended = { ...ended, failed: true };
      }
    },
    /** over says that the rollout has ended: there comes no result any more. */
    over() {
      over = true;
      if (ended) return;
      chips.querySelector(".running")?.remove();
      output.replaceChildren(el("p", { class: "bad" }, "no result"));
    },
    /** failure is the last line of a failed call's result; null: it did not fail. */
    failure: () => (!ended ? "no result" : ended.failed ? lastLine(ended.text ?? "") : null),
    /** about is the call in a line; key is equal for equal calls. */
    about: [name || "tool", title || firstLine(args)].filter(Boolean).join(" "),
    key: `${name} ${text}`,
    /** change is what the call does to a file, see fileChange. */
    change: rest?.bytes ? null : fileChange(text),
    /** seen is the file that a call showed whole, as {path, text}; null: none. */
    seen: () => (ended && !ended.failed && !ended.cut && args && !rest?.bytes ? wholeFile(name, args, ended.text ?? "") : null),
  };
}

// How tools say that they left out a part of their output.
const left = /\[\.\.\. (?:\d+ bytes )?left out|output (?:was )?truncated|\(line truncated/i;

function parse(text) {
  try {
    const value = JSON.parse(text || "{}");
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null; // the model wrote no JSON
  }
}

const firstLine = (args) => (string(args?.command, args?.cmd, args?.script) ?? "").trim().split("\n")[0].slice(0, 120);

// lastLine is the last line that says more than the exit status.
function lastLine(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return (lines.findLast((line) => !/^Exit code: \d+$/.test(line)) ?? lines.at(-1) ?? "no output").slice(0, 200);
}

const string = (...values) => values.find((v) => typeof v === "string");
const pathOf = (a) => string(a.filePath, a.file_path, a.path, a.filename, a.file) ?? "";

// editsOf returns the edits of a call as [before, after]; null: it is none.
function editsOf(a) {
  const edits = Array.isArray(a.edits) ? a.edits : [a];
  const pairs = edits.map((e) => [string(e?.oldString, e?.old_string, e?.old_str, e?.old), string(e?.newString, e?.new_string, e?.new_str, e?.new)]);
  return pairs.length && pairs.every(([before, after]) => before !== undefined && after !== undefined) ? pairs : null;
}

const contentOf = (a) => string(a.content, a.contents, a.file_text);

// fileChange returns what a call's arguments say of a file: {path, edits} or {path, content}; null: they change none.
function fileChange(text) {
  const args = parse(text);
  const path = args && pathOf(args);
  if (!path || string(args.command, args.cmd, args.script) !== undefined) return null;
  const edits = editsOf(args);
  if (edits) return { path, edits };
  const content = contentOf(args);
  return content === undefined ? null : { path, content };
}

const printed = /^cat ([\w./@+-]+)$/; // a command that prints one file
const numbered = /<content>\n([\s\S]*)\n\n\(End of file - total \d+ lines\)\n<\/content>/; // of OpenCode

// wholeFile returns the file of which a result is all, as {path, text}; null: it is not.
function wholeFile(name, a, text) {
  const command = string(a.command, a.cmd, a.script)?.trim();
  if (command !== undefined) return printed.test(command) ? { path: printed.exec(command)[1], text } : null;
  const path = pathOf(a);
  if (!path) return null;
  const lines = numbered.exec(text)?.[1].split("\n");
  if (lines?.every((line, i) => line.startsWith(`${i + 1}: `))) return { path, text: lines.map((line) => line.slice(line.indexOf(": ") + 2)).join("\n") };
  return name === "read_file" && !a.offset && !a.limit ? { path, text } : null;
}

// shape returns the title of a call and its body.
function shape(a) {
  const command = string(a.command, a.cmd, a.script);
  const others = (...shown) => fields(Object.entries(a).filter(([key]) => !shown.includes(key)));
  if (command !== undefined) return [string(a.description) ?? "", [block(command, { className: "command" }), others("command", "cmd", "script", "description")]];
  const path = pathOf(a);
  const paths = ["filePath", "file_path", "path", "filename", "file"];
  const pairs = editsOf(a);
  if (pairs) {
    const changes = pairs.map(([before, after]) => block(after, { className: "diff", paint: () => paintDiff(diff(before, after)) }));
    return [path, [changes, others(...paths, "edits", "oldString", "old_string", "old_str", "old", "newString", "new_string", "new_str", "new")]];
  }
  const patch = string(a.patch, a.patchText, a.diff);
  if (patch !== undefined) return [path, [block(patch, { className: "diff", paint: (text) => paintDiff(patchLines(text)) }), others(...paths, "patch", "patchText", "diff")]];
  const content = contentOf(a);
  if (content !== undefined && path) return [path, [block(content, { className: "file", paint: painter(path) }), others(...paths, "content", "contents", "file_text")]];
  const code = string(a.code);
  if (code !== undefined) return [path, [block(code, { className: "file", paint: painter("x.py") }), others(...paths, "code")]];
  return [path, [others(...paths)]];
}

// fields shows arguments by name: texts as they are, other values as JSON.
function fields(list) {
  if (!list.length) return null;
  return el("dl", { class: "arguments" }, list.map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return [el("dt", {}, visible(name)), el("dd", {}, text.includes("\n") || text.length > 120 ? block(text) : el("code", {}, visible(text)))];
  }));
}

// wrapped reads a result that is JSON with an output; null: it is a text.
function wrapped(text) {
  const value = text.startsWith("{") ? parse(text) : null;
  const output = string(value?.output, value?.stdout);
  if (output === undefined) return null;
  return { output, error: string(value.error, value.stderr), exit: value.metadata?.exit_code ?? value.exit_code };
}

// A file that a tool read has the colours of its language.
function resultPainter(args) {
  const path = args && string(args.command, args.cmd, args.content, args.file_text, args.contents, args.newString, args.new_string, args.new_str) === undefined ? pathOf(args) : "";
  return path ? painter(path) : null;
}
