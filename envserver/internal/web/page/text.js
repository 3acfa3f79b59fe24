// Shows text that a model, a tool or a client wrote: as text, complete, and with nothing in it that is not seen.
import { get } from "./api.js";
import { el } from "./dom.js";

// Characters that are not seen, or that change the order of others: controls, marks of direction, blanks without width.
const unseen = /[\0-\x08\x0B-\x1F\x7F-\x9F\u061C\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF]/g;

/** visible returns a text in which each character is seen: ESC is ␛, a mark of direction ⟨U+202E⟩. */
export function visible(text) {
  return text.replaceAll("\r\n", "\n").replace(unseen, (c) => {
    const code = c.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** size formats a number of bytes. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(bytes < 10240 ? 1 : 0)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

const folded = 16; // lines of a long text that are shown at first
const foldedChars = 2400;

/**
 * block returns a text as a block. A long one is folded, and says how long it is. rest is {bytes, path}: the whole length of a text that was not sent
 * whole, and where the other parts of it are read.
 */
export function block(text, { className = "", rest = null, paint = null } = {}) {
  const pre = el("pre", { class: className || false });
  pre.append(...(paint ? paint(text) : [visible(text)]));
  const box = el("div", { class: "block" }, pre);
  const lines = text.split("\n").length;
  if (lines > folded + 4 || text.length > foldedChars) box.append(fold(pre, `${lines.toLocaleString("en")} lines, ${size(rest?.bytes || new TextEncoder().encode(text).length)}`));
  if (rest?.bytes) box.append(more(pre, text, rest));
  return box;
}

function fold(pre, what) {
  const button = el("button", { type: "button", class: "quiet-button", "aria-expanded": "false" }, `Show all ${what}`);
  pre.classList.add("folded");
  button.addEventListener("click", () => {
    const now = pre.classList.toggle("folded");
    button.textContent = now ? `Show all ${what}` : "Fold";
    button.setAttribute("aria-expanded", String(!now));
  });
  return button;
}

// more loads the parts of a text that were not sent with it, one for each click.
function more(pre, text, { bytes, path }) {
  let offset = new TextEncoder().encode(text).length;
  const left = () => `${size(offset)} of ${size(bytes)} are here. Load more`;
  const button = el("button", { type: "button", class: "quiet-button" }, left());
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const range = await get(`${path}?offset=${offset}`);
      pre.append(visible(range.text));
      pre.classList.remove("folded");
      offset = range.next ?? bytes;
      button.textContent = left();
      if (!range.next) button.remove();
    } catch (error) {
      button.textContent = error.message;
    }
    button.disabled = false;
  });
  return button;
}
