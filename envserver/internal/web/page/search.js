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
    count.textContent = input.value ? (places.length ? `${at + 1} of ${places.length}` : "none") : "";
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
  const low = wanted.toLowerCase();
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text && found.length < most; text = walk.nextNode()) {
    const data = text.data.toLowerCase();
    for (let i = data.indexOf(low); i >= 0 && found.length < most; i = data.indexOf(low, i + low.length)) {
      const range = new Range();
      range.setStart(text, i);
      range.setEnd(text, Math.min(i + low.length, text.data.length));
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
