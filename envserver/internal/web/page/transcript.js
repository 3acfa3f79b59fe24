// The conversation of a rollout, turn by turn: live by its events, afterwards from its trace.
import { get } from "./api.js";
import { branches } from "./branches.js";
import { el, seconds } from "./dom.js";
import { findings } from "./findings.js";
import { stepHeading, stepOf } from "./steps.js";
import { block, size, visible } from "./text.js";
import { toolCall } from "./toolcall.js";

/** transcript returns the node, a function that adds an event, and one that loads the recorded turns. */
export function transcript(path, { onTurns, onShow, onTurn }) {
  const unusual = el("div");
  const list = el("div", { class: "turns" });
  const note = el("p", { class: "quiet", role: "status" });
  const node = el("div", {}, unusual, list, note);
  const calls = new Map(); // by id: the latest call
  const called = []; // all recorded calls with their turns
  const times = new Map(); // by id: {from, to, failed}
  const turns = [];
  let live = null; // the article to which events are added
  let recorded = false;
  let earned = new Map(); // by turn: its rewards

  const timing = (id) => {
    const t = times.get(id);
    if (t) calls.get(id)?.timing({ seconds: t.to && t.from ? (t.to - t.from) / 1000 : undefined, failed: t.failed, running: !t.to });
  };
  const current = () => live ?? (live = list.appendChild(el("article", { class: "turn", tabindex: "-1" })));
  const call = (into, id, made, turn, at = `turn ${turn}`) => {
    called.push({ ...made, turn, at });
    for (const written of into.querySelectorAll(".as-written")) written.open = false;
    into.append(made.node);
    calls.set(id, made);
    timing(id);
  };

  const follow = {
    agent: (e) => current().append(el("p", { class: "quiet" }, e.launch > 1 ? `The agent was launched again (${e.launch})` : "The agent was launched")),
    turn: (e) => {
      live = list.appendChild(el("article", { class: "turn", tabindex: "-1", "data-turn": e.turn }));
      live.append(heading({ turn: e.turn, kind: e.turn_kind, latency_s: e.latency_s, usage: { completion_tokens: e.completion_tokens }, finish_reason: e.finish_reason, broken: e.broken, train: true }));
    },
    text: (e) => current().append(said("text", e.text, cut(e))),
    thinking: (e) => current().append(said("thinking", e.text, cut(e))),
    tool_start: (e) => call(current(), e.call_id, toolCall(e.tool, e.bytes ? e.input : JSON.stringify(e.input ?? {}))),
    tool_output: (e) => calls.get(e.call_id)?.append(e.output ?? ""),
    tool_end: (e) => calls.get(e.call_id)?.result([e.output, e.error].filter(Boolean).join("\n") + (e.bytes ? `\n[${size(e.bytes)} in all: the whole output is here when the rollout has ended]` : "")),
    attempt: (e) => {
      live = null;
      list.append(el("p", { class: "divider" }, `attempt ${e.attempt}: ${e.outcome.replaceAll("_", " ")}`, e.error ? el("span", { class: "bad" }, " " + visible(e.error)) : null));
    },
    truncated: () => current().append(el("p", { class: "quiet" }, "The log of events is full. The rest is here when the rollout has ended.")),
  };

  const add = (kind, e) => {
    const at = Date.parse(e.at);
    if (kind === "tool_start") times.set(e.call_id, { from: at });
    if (kind === "tool_end") times.set(e.call_id, { ...times.get(e.call_id), to: at, failed: e.status === "error" });
    if (!recorded) follow[kind]?.(e);
    if (kind === "tool_start" || kind === "tool_end") timing(e.call_id);
  };

  /** load shows the turns of the trace in place of the events, where each step of the task begins, and the rewards of turns; of an episode its calls. */
  const load = async (steps = [], rewards = [], episode = false) => {
    if (episode) return tell();
    earned = Map.groupBy(rewards, (r) => r.turn);
    let after = 0;
    let step = -1;
    const { next, reset } = branches(list);
    note.textContent = "Loading …";
    do {
      const page = await get(`${path}/turns?after=${after}`);
      if (!recorded && page.turns.length) {
        recorded = true;
        list.replaceChildren();
        calls.clear();
        called.length = 0;
      }
      for (const turn of page.turns) {
        const of = stepOf(turn, steps);
        if (of >= 0 && of !== step) {
          reset();
          list.append(stepHeading(steps[of], of));
        }
        step = of;
        next(turn).append(article(turn));
      }
      turns.push(...page.turns);
      onTurns(turns);
      after = page.next ?? 0;
    } while (after);
    note.textContent = turns.length ? "" : "No model call was recorded.";
    if (turns.length && !turns.some((t) => t.parts.some((p) => p.kind === "user"))) await weave();
    for (const made of called) made.over();
    if (turns.length) unusual.replaceChildren(findings(turns, why, called, onTurn) ?? "");
  };

  // tell shows the calls of an episode, which has no trace: the model is its client's.
  const tell = async () => {
    note.textContent = "Loading …";
    const { messages } = await get(`${path}/messages`);
    list.replaceChildren();
    calls.clear();
    called.length = 0;
    for (const { info, parts = [] } of messages) {
      const texts = parts.filter((p) => p.type === "text").map((p) => said(info?.role === "user" ? "user" : "text", p.text));
      if (texts.length) list.append(el("article", { class: "turn", tabindex: "-1" }, texts));
      for (const part of parts.filter((p) => p.type === "tool")) {
        const n = called.length + 1;
        const article = list.appendChild(el("article", { class: "turn", tabindex: "-1", "data-turn": n }, el("header", {}, el("b", {}, `Call ${n}`))));
        const { start, end } = part.state?.time ?? {};
        if (start && end) times.set(part.callID, { from: start, to: end, failed: part.state.status === "error" });
        told(article, part, n, `call ${n}`);
      }
    }
    note.textContent = called.length ? "" : "The client called no tool.";
    onTurns(turns);
    unusual.replaceChildren(findings(turns, why, called, onTurn) ?? "");
  };

  // told adds a call as the agent's own record has it.
  const told = (article, part, turn, at) => {
    const made = toolCall(part.tool, JSON.stringify(part.state?.input ?? {}));
    call(article, part.callID, made, turn, at);
    const { output, error, metadata, status } = part.state ?? {};
    if (status === "running") return;
    made.result([output, error].filter(Boolean).join("\n"));
    made.status({ exit: metadata?.exit_code, failed: status === "error" });
  };

  // weave adds the agent's own record: an agent that continues by token ids sends no messages.
  const weave = async () => {
    const record = await get(`${path}/messages`).catch(() => null); // a command has none
    const replied = turns.filter((t) => t.kind === "agent" && !t.broken && t.delivered);
    let before = [];
    for (const message of record?.messages ?? []) {
      const parts = message.parts ?? [];
      if (message.info?.role === "user") {
        if (message.info.system) before.push(said("system", message.info.system));
        before.push(...parts.filter((p) => p.type === "text").map((p) => said("user", p.text)));
        continue;
      }
      const turn = replied.shift()?.turn;
      const article = list.querySelector(`[data-turn="${turn}"]`);
      if (!article) break;
      article.querySelector("header").after(...before);
      before = [];
      for (const part of parts.filter((p) => p.type === "tool")) told(article, part, turn);
    }
  };

  const article = (turn) => {
    const out = el("article", { class: "turn", tabindex: "-1", "data-turn": turn.turn }, heading(turn, onShow, earned.get(turn.turn)));
    turn.parts.forEach((part, i) => {
      const rest = part.bytes ? { bytes: part.bytes, path: `${path}/turns/${turn.turn}/parts/${i}` } : null;
      if (part.kind === "tool_call") call(out, part.call_id, toolCall(part.name, part.text, rest), turn.turn);
      else if (part.kind === "tool_result" && calls.has(part.call_id)) calls.get(part.call_id).result(part.text, rest);
      else out.append(said(part.kind, part.text, rest));
    });
    if (turn.parts_omitted) out.append(el("p", { class: "quiet" }, `${turn.parts_omitted} more messages are not shown: the trace has them.`));
    return out;
  };

  return { node, add, load, turns, times, called, fail: (message) => (note.textContent = message) };
}

// An event has the beginning of a long text only.
const cut = (e) => (e.bytes ? { cut: e.bytes } : null);

const kinds = { user: "User", assistant: "The agent sends as its own", tool_result: "Result", error: "Error of the endpoint" };

// Markup of models whose replies the engine does not parse: thinking first, calls last.
const markup = /^(?:\s*<think>([\s\S]*?)<\/think>)?([\s\S]*?)(<tool_call>[\s\S]*)?$/;

function said(kind, text, rest) {
  const [, thinking, own, written] = kind === "text" && !rest ? markup.exec(text) : [];
  if (thinking !== undefined || written !== undefined) {
    return el("div", {}, thinking?.trim() ? said("thinking", thinking.trim()) : null, own.trim() ? said("text", own.trim()) : null,
      written ? el("details", { class: "said as-written", open: true }, el("summary", {}, "Tool call as the model wrote it"), block(written)) : null);
  }
  const body = rest?.cut ? [block(text), el("p", { class: "quiet" }, `${size(rest.cut)} in all: the whole text is here when the rollout has ended.`)] : block(text, { className: kind === "tool_result" ? "" : "prose", rest });
  if (kind === "system" || kind === "thinking") {
    const first = visible(text.trim().split("\n")[0].slice(0, 160));
    return el("details", { class: "said " + kind }, el("summary", {}, el("b", {}, kind === "system" ? "System prompt" : "Thinking"), " ", el("span", { class: "quiet" }, first)), body);
  }
  return el("div", { class: "said " + kind }, kinds[kind] ? el("b", { class: "who" }, kinds[kind]) : null, body);
}

/** why says what is unusual about a turn. */
export function why(turn) {
  const list = [];
  if (turn.finish_reason === "length") list.push(["warn", "the reply was cut off at its largest length"]);
  if (turn.broken) list.push(["bad", "no complete reply: " + turn.broken]);
  if (turn.prefix_break) list.push(["warn", `prefix break at token ${turn.prefix_break.at} after turn ${turn.prefix_break.after_turn}`]);
  if (turn.delivered === false && !turn.broken) list.push(["warn", "the reply did not reach the agent"]);
  for (const flaw of turn.flaws ?? []) list.push(["warn", flaw]);
  if (turn.constrained) list.push(["warn", "sampled under " + turn.constrained]);
  if (turn.repaired) list.push(["warn", "reply repaired: " + turn.repaired]);
  if (turn.fallback) list.push(["warn", turn.fallback]);
  if (turn.upstream_tries > 1) list.push(["quiet", `${turn.upstream_tries} tries`]);
  return list;
}

function heading(turn, onShow, rewards = []) {
  const reason = turn.finish_reason && !["stop", "tool_calls", "end_turn", "tool_use"].includes(turn.finish_reason) ? el("span", { class: "warn" }, visible(turn.finish_reason)) : null;
  const count = turn.usage?.completion_tokens;
  const tokens = onShow && turn.completion_token_ids ? el("button", { type: "button", class: "quiet-button", click: () => onShow(turn.turn) }, `${count || turn.completion_token_ids} tokens`) : count ? el("span", {}, `${count} tokens`) : null;
  return el("header", {},
    el("b", {}, `Turn ${turn.turn}`), turn.kind && turn.kind !== "agent" ? el("span", { class: "tag" }, turn.kind) : null,
    el("span", { class: "chips" }, rewards.map((r) => el("span", { class: "earned" }, `${r.name ? visible(r.name) : "reward"} `, el("b", {}, String(r.reward)))), reason, turn.train === false ? el("span", { class: "quiet" }, "not trained") : null, tokens, el("span", {}, seconds(turn.latency_s ?? null))),
    why(turn).map(([tone, text]) => el("p", { class: tone }, visible(text))));
}
