// The difference of two texts by lines.
import { el } from "./dom.js";
import { visible } from "./text.js";

const maxCells = 4e6; // of the table: longer texts are shown as removed and added

/** diff returns lines as [mark, text]; a mark is " ", "-" or "+". */
export function diff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const middle = changes(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const same = (lines) => lines.map((line) => [" ", line]);
  return [...same(a.slice(0, head)), ...middle, ...same(a.slice(a.length - tail))];
}

// changes finds the longest common lines.
function changes(a, b) {
  const removed = a.map((line) => ["-", line]);
  const added = b.map((line) => ["+", line]);
  if (!a.length || !b.length || a.length * b.length > maxCells) return [...removed, ...added];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const out = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      out.push([" ", a[i++]]);
      j++;
    } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) out.push(removed[i++]);
    else out.push(added[j++]);
  }
  return [...out, ...removed.slice(i), ...added.slice(j)];
}

/** paintDiff returns lines of a difference as nodes. */
export function paintDiff(lines) {
  const tone = { "+": "added", "-": "removed", "@": "hunk" };
  return lines.map(([mark, line]) => el("span", { class: "line " + (tone[mark] ?? "") }, mark + visible(line) + "\n"));
}

/** patchLines splits a text that is a patch. */
export const patchLines = (text) => text.split("\n").map((line) => (/^[-+@]/.test(line) ? [line[0], line.slice(1)] : [" ", line.replace(/^ /, "")]));
