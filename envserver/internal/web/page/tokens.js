// The training sequences, token by token as the engine sampled them.
import { get } from "./api.js";
import { complain, el, facts } from "./dom.js";
import { visible } from "./text.js";

const page = 2000; // tokens of one request
const windowOf = (at) => Math.floor(at / page) * page; // a saved page has these windows alone
const bins = ["≥ 99 %", "≥ 90 %", "≥ 61 %", "≥ 37 %", "≥ 14 %", "≥ 1.8 %", "≥ 0.03 %", "less"]; // of the server's histogram, as probabilities
const bounds = [-0.01, -0.1, -0.5, -1, -2, -4, -8];

/** tokens returns the node of the sequences, and show, which opens a turn or {sequence, at}. onPlace hears what is shown. */
export function tokens(path, untrained, onPlace) {
  const node = el("div", { class: "tokens" }, el("p", { class: "quiet" }, "Loading …"));
  let shown = null; // the view on the page
  let asked = false; // for a view

  const likely = alternatives(path);
  // go is load for what is clicked: on an error the view stays.
  const go = (...place) => load(...place).catch((error) => complain(error.message));
  const load = async (sequence, start, at) => {
    const view = await get(`${path}/tokens?sequence=${sequence}&start=${start}&limit=${page}`);
    shown = view;
    onPlace({ sequence: sequence || undefined, token: at });
    node.replaceChildren(...draw(view, go, untrained, onPlace, likely));
    if (at !== undefined) mark(node, at);
  };

  /** show opens the sequence of a turn, or a token. */
  const show = async ({ turn, sequence = 0, at } = {}) => {
    asked = true;
    try {
      if (!shown || turn === undefined) await load(sequence, windowOf(at ?? 0), at);
      if (turn === undefined) return;
      const number = shown.sequences.findIndex((s) => s.first_turn <= turn && turn <= s.last_turn);
      if (number < 0) return;
      if (number !== shown.sequence) await load(number, 0);
      const span = shown.spans.find((s) => s.turn === turn);
      if (span) await load(number, windowOf(span.start), span.start);
    } catch (error) {
      node.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  };
  return { node, show, asked: () => asked };
}

function mark(node, at) {
  const token = node.querySelector(`[data-at="${at}"]`);
  if (!token) return;
  token.scrollIntoView({ block: "center" });
  token.focus({ preventScroll: true });
  token.click();
}

const skips = { auxiliary: "titles", summary: "summaries", foreign: "not the agent's own calls", subagent: "of subagents", undelivered: "whose reply did not reach the agent", broken: "without a complete reply", no_tokens: "without token ids" };

// alternatives returns a function that asks for those of a token of a reply. What was asked for is kept. A saved page has only those that were recorded.
function alternatives(path) {
  const known = new Map(); // by turn and thousand
  return async (turn, i) => {
    const start = Math.floor(i / 1000) * 1000;
    const key = `${turn} ${start}`;
    if (!known.has(key)) known.set(key, get(`${path}/turns/${turn}/alternatives?start=${start}`).catch(({ message, status }) => ({ positions: [], error: status === 410 ? "" : message })));
    const { positions, error } = await known.get(key);
    return { all: positions[i - start] ?? [], error };
  };
}

function draw(view, load, untrained, onPlace, likely) {
  const skipped = Object.entries(view.skipped).map(([why, n]) => `${n} ${skips[why] ?? why}`).join(", ");
  const left = skipped ? el("p", { class: "quiet" }, `Model calls in no sequence: ${skipped}.`) : null;
  const none = untrained() ? el("p", { class: "warn" }, visible(untrained())) : null;
  if (!view.sequences.length) return [none, el("p", {}, "There are no training sequences: no reply of the agent has token ids."), left].filter(Boolean);

  const s = view.sequences[view.sequence];
  const choose = el("select", { "aria-label": "Sequence", change: (event) => load(Number(event.target.value), 0) }, view.sequences.map((q, i) => el("option", { value: i, selected: i === view.sequence }, `Sequence ${i + 1} of ${view.sequences.length}: turns ${q.first_turn}–${q.last_turn}, ${q.length.toLocaleString("en")} tokens`)));
  const versions = [...new Set(view.spans.map((p) => p.model_version).filter(Boolean))];
  const about = el("p", { class: "inspect", role: "status" }, el("span", { class: "quiet" }, "Choose a token to see its id, probability and version."));
  const text = tokenText(view, about, onPlace, likely);
  const stop = view.start + view.tokens.length;
  const button = (label, start, at) => el("button", { type: "button", click: () => load(view.sequence, Math.max(start, 0), at) }, label);
  let next = 0;
  const least = view.least.length
    ? el("button", { type: "button", click: (event) => {
      const { at } = view.least[next++ % view.least.length];
      event.target.textContent = `Next least likely (${(next % view.least.length) + 1} of ${view.least.length})`;
      if (at >= view.start && at < stop) mark(event.target.closest(".tokens"), at);
      else load(view.sequence, windowOf(at), at);
    } }, "Jump to the least likely token")
    : null;
  return [
    none, el("div", { class: "row" }, choose, least),
    facts([["Tokens", `${s.length.toLocaleString("en")}, ${s.sampled.toLocaleString("en")} sampled, ${s.trained.toLocaleString("en")} trained`], ["Weights", versions.map(visible).join(", ") || "the endpoint gave no version"], ["Lineage", visible(s.lineage)], ["Ends", ends(s, view)]], { inline: true }),
    view.break ? spellings(view.break, load) : null,
    histogram(view.histogram), legend(), about,
    view.start > 0 ? el("div", { class: "row" }, button(`Tokens ${Math.max(view.start - page, 0).toLocaleString("en")}–${view.start.toLocaleString("en")}`, view.start - page), button("From the beginning", 0)) : null,
    text, stop < s.length ? el("div", { class: "row" }, button(`Next tokens, ${stop.toLocaleString("en")}–${Math.min(stop + page, s.length).toLocaleString("en")} of ${s.length.toLocaleString("en")}`, stop)) : null, left,
    el("p", { class: "quiet" }, "A sampled token has the text that the engine gave with it. A token of a prompt has the text of a sampled token of the same id, else its id is shown."),
  ].filter(Boolean);
}

function ends(s, view) {
  if (s.end === "end") return "with the rollout";
  return (s.end === "compacted" ? "the agent continued from a summary" : "the next prompt does not repeat it") + (view.break ? `, at token ${view.break.at}` : "");
}

const tone = (logprob) => {
  const bin = bounds.findIndex((b) => logprob >= b);
  return "p" + (bin < 0 ? bounds.length : bin);
};

/** chance formats the probability of a logprob. */
function chance(logprob) {
  const p = 100 * Math.exp(logprob);
  return (p >= 1 ? p.toFixed(1) : p.toPrecision(2)) + " %";
}

// tokenText returns the tokens of the window. One listener serves all.
function tokenText(view, about, onPlace, likely) {
  const node = el("div", { class: "token-text", role: "group", "aria-label": "Tokens" });
  const spans = view.spans;
  let k = 0;
  view.tokens.forEach((token, i) => {
    const at = view.start + i;
    while (k < spans.length && at >= spans[k].stop) k++;
    const span = spans[k] && at >= spans[k].start ? spans[k] : null;
    if (span && (at === span.start || i === 0)) node.append(el("span", { class: "span-mark" }, `turn ${span.turn}${span.model_version ? ", " + visible(span.model_version) : ""}`));
    node.append(one(token, { "data-at": at, tabindex: "-1" }, Boolean(span)));
  });
  const inspect = (target) => {
    const at = Number(target?.dataset?.at ?? -1);
    if (at < 0) return;
    node.querySelector(".chosen")?.classList.remove("chosen");
    target.classList.add("chosen");
    onPlace({ token: at });
    const token = view.tokens[at - view.start];
    const span = spans.find((s) => at >= s.start && at < s.stop);
    about.replaceChildren(...details(token, span, at));
    if (span) likely(span.turn, at - span.start).then((found) => target.classList.contains("chosen") && about.append(...others(found)));
  };
  node.addEventListener("click", (event) => inspect(event.target.closest(".token")));
  return node;
}

/** one returns a token: coloured by its probability if it was sampled, underlined if it is trained on. */
function one(token, attributes, sampled) {
  const text = token.text === null ? `#${token.id}` : visible(token.text);
  const classes = ["token", sampled ? (token.logprob === null ? "unknown" : tone(token.logprob)) : "prompt", token.trained ? "trained" : "", token.text === null ? "no-text" : ""].filter(Boolean).join(" ");
  const title = `id ${token.id}` + (token.logprob === null ? "" : `, ${chance(token.logprob)}, logprob ${token.logprob.toFixed(4)}`);
  return el("span", { class: classes, title, ...attributes }, text.replaceAll("\n", "⏎\n"));
}

function details(token, span, at) {
  const text = token.text === null ? "no text recorded" : JSON.stringify(visible(token.text));
  const parts = [["Token", at], ["id", token.id], ["text", text]];
  if (token.logprob !== null) parts.push(["probability", chance(token.logprob)], ["logprob", token.logprob.toFixed(4)]);
  parts.push(["", token.trained ? "trained" : span ? "sampled, not trained" : "prompt, masked"]);
  if (span) parts.push(["turn", span.turn], ["weights", span.model_version || "not known"]);
  if (span?.temperature !== undefined && span?.temperature !== null) parts.push(["temperature", span.temperature]);
  return parts.map(([name, value]) => el("span", { class: "pair" }, name ? el("span", { class: "quiet" }, name + " ") : null, el("b", {}, String(value))));
}

// others lists the tokens that the engine gave as likely in place of one.
function others({ all, error }) {
  if (error) return [el("span", { class: "quiet" }, visible(error))];
  if (!all.length) return [];
  const name = (text) => (text.startsWith("token_id:") ? "#" + text.slice("token_id:".length) : JSON.stringify(visible(text)));
  return [el("span", { class: "alternatives" }, el("span", { class: "quiet" }, "likely here "), all.map(({ text, logprob }) => el("span", { class: "pair" }, el("b", {}, name(text)), " ", chance(logprob))))];
}

function histogram(counts) {
  const most = Math.max(...counts, 1);
  const all = counts.reduce((a, b) => a + b, 0);
  if (!all) return el("p", { class: "quiet" }, "The trace has no log probabilities.");
  return el("figure", { class: "histogram" }, el("figcaption", {}, "Sampled tokens by probability"),
    counts.map((n, i) => el("div", { title: `${n} tokens` }, el("span", {}, bins[i]), el("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, el("rect", { width: n ? Math.max((100 * n) / most, 0.6) : 0, height: 8, class: "p" + i })), el("span", { class: "number" }, n.toLocaleString("en")))));
}

const legend = () => el("p", { class: "legend" }, el("span", {}, el("span", { class: "token p0 trained" }, "sampled and trained")), el("span", {}, el("span", { class: "token p0" }, "sampled, not trained")), el("span", {}, el("span", { class: "token prompt" }, "prompt, masked")), el("span", {}, "from likely ", bins.map((b, i) => el("span", { class: "token p" + i, title: b }, "\u00a0\u00a0")), " to unlikely"));

const causes = {
  compacted: () => "The agent continued from a summary of its conversation.",
  retokenized: (b) => `The prompt of turn ${b.turn} has the same text as the reply of turn ${b.reply_of}, in other tokens.`,
  rendered_differently: (b) => `The prompt of turn ${b.turn} has the reply of turn ${b.reply_of} in another form: the agent changed it, or the chat template renders it differently.`,
  prompt_changed: (b) => `Turn ${b.turn} changed a part of the conversation that is before any reply in question: the agent or the chat template altered an earlier message.`,
};

// spellings shows both sides of a break, with the tokens that differ marked.
function spellings(b, load) {
  const side = (title, list, differ, sampled) => el("div", {}, el("h4", {}, title), el("div", { class: "token-text" },
    b.before.map((t) => one(t, {}, t.logprob !== null)), list.map((t) => one(t, {}, sampled && t.logprob !== null)).map((n, i) => {
      if (i < differ || (differ === 0 && i === 0)) n.classList.add("differs");
      return n;
    }), list.length ? null : el("span", { class: "quiet" }, "(ends here)")));
  return el("section", { class: "break" }, el("h3", {}, `Break at token ${b.at.toLocaleString("en")}`), el("p", {}, causes[b.cause]?.(b) ?? b.cause),
    b.fallback ? el("p", {}, el("span", { class: "quiet" }, "Recorded reason: "), visible(b.fallback)) : null,
    el("div", { class: "sides" }, side("As sampled", b.sampled, b.sampled_differ, true), side(`In the prompt of turn ${b.turn}`, b.rendered, b.rendered_differ, false)),
    el("button", { type: "button", class: "quiet-button", click: () => load(b.next, 0) }, `Open the next sequence`));
}
