// Keys: j and k go through turns or rows, / searches, digits open tabs, ? shows this list.
import { $, el } from "./dom.js";
import { lastList } from "./rollouts.js";
import { place } from "./saved.js";

const help = [["j, k", "next and previous turn, or row of a list"], ["Enter", "open the row"], ["/", "search the transcript, or filter the list"], ["1 … 7", "open a tab"], ["J, K", "next and previous rollout of the list"], ["g", "back to the list"], ["?", "this list"], ["Esc", "close"]];

/** keys listens for the page's keys. */
export function keys() {
  const dialog = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"), el("dl", {}, help.map(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])), el("form", { method: "dialog" }, el("button", {}, "Close")));
  document.body.append(dialog);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
    const act = { j: () => step(1), k: () => step(-1), "/": find, "?": () => dialog.showModal(), J: () => sibling(1), K: () => sibling(-1), g: () => (location.hash = place ?? lastList().place) }[event.key] ?? (/^[1-9]$/.test(event.key) ? () => tab(Number(event.key)) : null);
    if (!act) return;
    event.preventDefault();
    act();
  });
  $("keys").addEventListener("click", () => dialog.showModal());
}

const open = () => [...document.querySelectorAll("main > section")].find((s) => !s.hidden);

// step focuses the next item: a turn, or the link of a row.
function step(by) {
  const page = open();
  const linkOf = (row) => row?.querySelector("a"); // the first of several
  const items = (page.id === "rollout" ? [...page.querySelectorAll(".turn")] : [...page.querySelectorAll("tbody tr")].map(linkOf)).filter((e) => e?.checkVisibility());
  if (!items.length) return;
  const focused = document.activeElement;
  const now = items.indexOf(focused.closest(".turn") ?? linkOf(focused.closest("tr")));
  const to = items[Math.min(Math.max(now + by, 0), items.length - 1)];
  to.scrollIntoView({ block: page.id === "rollout" ? "start" : "center" });
  to.focus({ preventScroll: true });
}

// sibling opens another rollout of the list that was shown last, at the same tab.
function sibling(by) {
  const [, id, query = ""] = /^#\/rollouts\/([^?]+)(\?.*)?$/.exec(location.hash) ?? [];
  const { ids } = lastList();
  const at = ids.indexOf(id && decodeURIComponent(id));
  const tab = new URLSearchParams(query).get("tab");
  if (at >= 0 && ids[at + by]) location.hash = `#/rollouts/${encodeURIComponent(ids[at + by])}${tab ? "?tab=" + tab : ""}`;
}

function find() {
  open().querySelector("input[type=search], form input")?.focus();
}

function tab(number) {
  open().querySelectorAll("[role=tab]")[number - 1]?.click();
}
