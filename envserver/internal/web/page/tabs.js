// Tabs: one panel of several is shown. A panel is made when it is first opened.
import { el } from "./dom.js";

/** tabs returns the node, and open, which shows a panel by name. list has [name, title, make]; onOpen hears of the change. */
export function tabs(list, onOpen) {
  const panels = new Map();
  const buttons = list.map(([name, title]) => el("button", { type: "button", role: "tab", id: "tab-" + name, "aria-controls": "panel-" + name, "aria-selected": "false", tabindex: "-1", click: () => open(name) }, title));
  const holder = el("div", { class: "panels" });
  const bar = el("div", { class: "tabs", role: "tablist", "aria-label": "Views of the rollout" }, buttons);
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (list.findIndex(([name]) => name === current) + step + list.length) % list.length;
    open(list[at][0]);
    buttons[at].focus();
  });
  let current = "";
  const open = (name) => {
    if (!list.some(([other]) => other === name)) name = list[0][0];
    current = name;
    list.forEach(([other, , make], i) => {
      const chosen = other === name;
      buttons[i].setAttribute("aria-selected", String(chosen));
      buttons[i].tabIndex = chosen ? 0 : -1;
      if (chosen && !panels.has(other)) {
        const panel = el("div", { role: "tabpanel", id: "panel-" + other, "aria-labelledby": "tab-" + other });
        panels.set(other, panel);
        holder.append(panel);
        panel.append(make() ?? "");
      }
      if (panels.has(other)) panels.get(other).hidden = !chosen;
    });
    onOpen(name);
  };
  /** redraw makes a panel again, if it has been opened. */
  const redraw = (name) => {
    const make = list.find(([other]) => other === name)[2];
    if (panels.has(name)) panels.get(name).replaceChildren(make() ?? "");
  };
  return { node: el("div", { class: "tabbed" }, bar, holder), open, redraw, current: () => current };
}
