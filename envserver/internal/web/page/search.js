// Finds text in a node, marks it, and goes from one place to the next.
import { el, reveal } from "./dom.js";

/** search returns a field that searches the elements below a node. */
export function search(node) {
  const input = el("input", { type: "search", placeholder: "Search the transcript ( / )", "aria-label": "Search the transcript", autocomplete: "off", spellcheck: "false" });
  const count = el("span", { class: "quiet", role: "status" });
  let at = -1;
  const find = (step) => {
    const places = ranges(node, input.value);
    mark(places);
    at = places.length ? (at + step + places.length) % places.length : -1;
    count.textContent = input.value ? (places.length ? `${at + 1} of ${places.length}${places.length === most ? " or more" : ""}` : "none") : "";
    if (at < 0) return;
    const place = places[at].startContainer.parentElement;
    reveal(place, node);
    place.scrollIntoView({ block: "center" });
  };
  input.addEventListener("input", () => {
    at = -1;
    find(1);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") find(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") input.blur();
  });
  return el("div", { class: "search" }, input, count);
}

const most = 1000; // places

function ranges(node, wanted) {
  const found = [];
  if (!wanted) return found;
  // in lower case a text may have another length
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu");
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    for (const { index, 0: match } of text.data.matchAll(pattern)) {
      if (found.length === most) return found;
      const range = new Range();
      range.setStart(text, index);
      range.setEnd(text, index + match.length);
      found.push(range);
    }
  }
  return found;
}

function mark(places) {
  if (!globalThis.Highlight) return;
  if (places.length) CSS.highlights.set("found", new Highlight(...places));
  else CSS.highlights.delete("found");
}
