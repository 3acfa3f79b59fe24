// The files of the workspace at its end as a tree, with what the agent's tools did to each.
import { get } from "./api.js";
import { painter } from "./code.js";
import { diff, paintDiff } from "./diff.js";
import { el } from "./dom.js";
import { block, visible } from "./text.js";

const kept = 8000; // characters of a file in a result
const deepest = 20; // folders that are shown as folders

/** files returns the node of a result's files. calls are those of the transcript in order; onTurn opens a turn. */
export function files(path, calls, onTurn) {
  const node = el("div", {}, el("p", { class: "quiet" }, "Loading …"));
  Promise.all([get(path + "/result"), given(path)])
    .then(([result, start]) => node.replaceChildren(...draw(result, start, readsOf(calls), changesOf(calls), onTurn)), (error) => node.replaceChildren(el("p", { class: "bad" }, error.message)));
  return node;
}

// given returns the files that the task gave, as [path, text]. They are not known for ever, nor to everybody.
async function given(path) {
  const { arguments: args } = await get(path + "/arguments").catch(() => ({}));
  return Object.entries(args?.upload_files ?? {}).filter(([, text]) => typeof text === "string");
}

// changesOf returns what calls changed, in order: {path, turn, edits or content}.
const changesOf = (calls) => calls.filter((call) => call.change && call.failure() === null).map(({ change, turn, at }) => ({ ...change, turn, at }));

// readsOf returns the files that calls showed whole before the agent's tools changed them, in order: {path, text, at}.
const readsOf = (calls) => calls.flatMap((call, i) => {
  const seen = call.seen();
  const earlier = seen && calls.slice(0, i).some(({ change, failure }) => change && failure() === null && (names(change.path, seen) || names(seen.path, change)));
  return seen && !earlier ? [{ ...seen, at: call.at }] : [];
});

// A tool's path may be relative to the workdir.
const names = (name, { path }) => name === path || (!path.startsWith("/") && name.endsWith("/" + path.replace(/^(\.\/)+/, "")));

function draw(result, start, reads, changes, onTurn) {
  const texts = new Map(Object.entries({ ...result.workdir_files, ...result.files }));
  const all = [...texts.keys(), ...(result.files_extra ?? [])].sort((a, b) => a.localeCompare(b));
  const gone = [...new Set(changes.filter((change) => !all.some((name) => names(name, change))).map((change) => change.path))];
  const one = (name, label) => {
    const own = changes.filter((change) => names(name, change));
    const before = start.find(([path]) => names(name, { path }))?.[1];
    // a relative path may be that of several files
    const read = reads.find((seen) => names(name, seen) && (seen.path.startsWith("/") || all.filter((other) => names(other, seen)).length === 1));
    return texts.has(name) ? file({ name, label, text: texts.get(name), before, read, own }, onTurn) : el("p", { class: "quiet" }, el("code", {}, visible(label)), " not collected", links(own, onTurn));
  };
  return [
    all.length ? el("div", { class: "tree" }, folder(treeOf(all), one)) : el("p", { class: "quiet" }, "No file was collected."),
    gone.length ? [el("h3", {}, "Written or edited, and not among these files"), el("ul", {}, gone.slice(0, 200).map((name) => el("li", {}, el("code", {}, visible(name)), links(changes.filter((change) => change.path === name), onTurn)))), gone.length > 200 ? el("p", { class: "quiet" }, `and ${gone.length - 200} more`) : null] : null,
    el("p", { class: "quiet" }, "The files of the image and of the setup are not kept as they were at the start. What is known of a file is what the task gave, what the agent read of it whole, and what its tools did to it. At most 64 text files are collected, of each the first 8,000 characters."),
  ].flat().filter(Boolean);
}

// treeOf sorts paths into folders: maps of names to folders or paths. Folders with one entry that is a folder are joined.
function treeOf(paths) {
  const root = new Map();
  for (const path of paths) {
    const parts = path.split("/").filter(Boolean);
    const folders = parts.length > deepest ? [] : parts.slice(0, -1);
    let at = root;
    for (const name of folders.map((part) => part + "/")) {
      if (!at.has(name)) at.set(name, new Map());
      at = at.get(name);
    }
    at.set(folders.length === parts.length - 1 ? parts.at(-1) ?? path : path, path);
  }
  return root;
}

function folder(entries, one) {
  return [...entries].map(([name, entry]) => {
    if (!(entry instanceof Map)) return one(entry, name);
    while (entry.size === 1 && [...entry.values()][0] instanceof Map) {
      const [[inner, next]] = entry;
      name += inner;
      entry = next;
    }
    return el("details", { class: "folder", open: true }, el("summary", {}, el("code", {}, visible(name)), el("span", { class: "chips" }, `${entry.size}`)), el("div", { class: "branch-turns" }, folder(entry, one)));
  });
}

const links = (own, onTurn) => own.slice(0, 12).map(({ turn, at, edits }) => [" ", el("button", { type: "button", class: "quiet-button", click: () => onTurn(turn) }, `${edits ? "edited" : "written"} in ${at}`)]);

function file({ name, label, text, before, read, own }, onTurn) {
  const cut = [...text].length >= kept;
  const head = (whole) => (cut && whole ? [...whole].slice(0, kept).join("") : whole);
  before = head(before);
  // a tool's output may have lost the last line's end
  if (read) read = { ...read, text: head(read.text.endsWith("\n") || (!cut && !text.endsWith("\n")) ? read.text : read.text + "\n") };
  const earlier = before ?? read?.text;
  const changed = own.length ? (own[0].edits ? "edited" : "written") : earlier !== undefined && earlier !== text ? "changed" : null;
  const item = el("details", { class: "file-item" }, el("summary", {}, el("code", {}, visible(label)), el("span", { class: "chips" }, changed ? el("span", { class: "warn" }, changed) : null, counted(text.split("\n").length))));
  item.addEventListener("toggle", () => {
    if (item.childElementCount > 1) return;
    item.append(own.length ? el("p", {}, links(own, onTurn)) : "", ...difference(text, before, read, own, cut), block(text, { className: "file", paint: painter(name) }), cut ? el("p", { class: "quiet" }, "This is the beginning of the file.") : "");
  });
  return item;
}

// difference shows a file against what the task gave, or else against what the agent read, or what it was before the agent's first edit.
function difference(text, given, read, own, cut) {
  if (given === text) return [el("p", { class: "quiet" }, "As the task gave it.")];
  if (given === undefined && read?.text === text) return [el("p", { class: "quiet" }, `As the agent read it in ${read.at}.`)];
  if (!own.length && given === undefined && !read) return [];
  const before = given ?? read?.text ?? (cut ? null : undo(text, own));
  const note = given !== undefined ? "Against the file as the task gave it:" : read ? `Against the file as the agent read it in ${read.at}:` : before !== null ? "Against the file before the first edit, as the edits say:"
    : own.some((change) => !change.edits) ? "The agent wrote the whole file: what was there before is not known."
      : cut ? "The file is too long to undo its edits." : "The edits do not lead to this text: something else changed the file too.";
  return [el("p", { class: "quiet" }, note), before === null ? "" : block(text, { className: "diff", paint: () => paintDiff(diff(before, text)) })];
}

// undo takes edits back, the last one first; null: one is not found exactly once, or the whole file was written.
function undo(text, own) {
  for (const change of own.toReversed()) {
    if (!change.edits) return null;
    for (const [before, after] of change.edits.toReversed()) {
      const parts = after ? text.split(after) : [];
      if (parts.length !== 2) return null;
      text = parts.join(before);
    }
  }
  return text;
}

const counted = (lines) => (lines === 1 ? "1 line" : `${lines.toLocaleString("en")} lines`);
