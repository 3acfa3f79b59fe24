// Creates elements without HTML strings, so that the output of models and clients is never parsed as HTML.

const drawn = new Set(["svg", "rect", "title"]); // of SVG

/** el returns an element. Attributes that are functions are listeners; null and false are left out. */
export function el(tag, attributes = {}, ...children) {
  const node = drawn.has(tag) ? document.createElementNS("http:" + "/" + "/www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));
  return node;
}

export const $ = (id) => document.getElementById(id);

export function show(id, visible) {
  $(id).hidden = !visible;
}

export function complain(text) {
  $("alert").textContent = text;
  show("alert", text !== "");
}

/** reveal opens what hides a node inside another. */
export function reveal(node, within) {
  for (let box = node; box && box !== within; box = box.parentElement) {
    if (box.tagName === "DETAILS") box.open = true;
    if (box.classList.contains("folded")) box.classList.remove("folded");
  }
}

/** seconds formats a duration for a table. That of something that runs may be negative by the clock of this machine. */
export function seconds(s) {
  if (s === null || !Number.isFinite(s)) return "";
  if (s < 0) return "0.0 s";
  if (s > 0 && s < 0.1) return Math.max(Math.round(s * 1000), 1) + " ms";
  const whole = Math.round(s);
  if (whole < 60) return s.toFixed(1) + " s";
  return Math.floor(whole / 60) + " min " + (whole % 60) + " s";
}

/** dollars formats an amount of US dollars. */
export const dollars = (usd) => "$" + (usd < 1 ? String(Number(usd.toPrecision(2))) : usd.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));

export const pretty = (value) => JSON.stringify(value, null, 2);

/** link returns a link to the page of an item. */
export function link(page, id) {
  return el("a", { href: `#/${page}/${encodeURIComponent(id)}` }, id);
}

/** facts returns a list of names with their values, texts or nodes, below each other or in a line. Those without a value are left out. */
export function facts(list, { inline = false } = {}) {
  const known = list.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const pairs = known.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value.nodeType ? value : String(value))]);
  return el("dl", { class: inline && "facts" }, inline ? pairs.map((pair) => el("div", {}, pair)) : pairs);
}

/** section returns a table with its title, or nothing if there are no rows. */
export function section(title, heads, rows) {
  if (!rows.length) return [];
  return [el("h2", {}, title), el("div", { class: "wide names", tabindex: "0", role: "region", "aria-label": title }, el("table", {}, table(heads, rows)))];
}

/** table returns the head and the body of a table; a cell is text, a node, or {number}. */
export function table(heads, rows) {
  const cell = (tag) => (c) => (c && typeof c === "object" && "number" in c ? el(tag, { class: "number" }, c.number?.nodeType ? c.number : String(c.number ?? "")) : el(tag, {}, c ?? ""));
  return [el("thead", {}, el("tr", {}, heads.map(cell("th")))), el("tbody", {}, rows.map((r) => el("tr", {}, r.map(cell("td")))))];
}
