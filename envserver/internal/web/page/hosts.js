// Where rollouts run, the model endpoints, and what waits for them.
import { get, post } from "./api.js";
import { $, complain, el, show, table } from "./dom.js";
import { endpoints, state } from "./endpoints.js";
import { keep, seldom } from "./keep.js";
import { visible } from "./text.js";

const most = 100; // of the rollouts whose state is asked for

/** list shows hosts, endpoints and waiting rollouts, and keeps them fresh until another page is opened. */
export async function list() {
  const probes = seldom(endpoints);
  const draw = async () => {
    const running = get(`rollouts?status=running&detail=true&limit=${most}`);
    running.catch(() => {}); // the rest is shown first: it does not need Temporal, which may be away
    const [hosts, known] = await Promise.all([get("hosts").catch((error) => error), probes()]);
    drawHosts(hosts, draw);
    await drawEndpoints(known ?? []);
    drawWaiting(await running);
  };
  await keep(draw);
}

function drawHosts(answer, draw) {
  const refused = answer instanceof Error;
  show("hosts-none", refused || !answer.hosts.length);
  $("hosts-none").textContent = refused ? answer.message : "No host was seen within the last day.";
  if (refused) return;
  const focused = document.activeElement?.dataset.host;
  $("host-list").replaceChildren(...table(["Host", "State", "Slots", { number: "Load" }, "Version", "Seen", "Change"], answer.hosts.map((h) => row(h, draw))));
  if (focused) $("host-list").querySelector(`[data-host="${CSS.escape(focused)}"]`)?.focus();
}

function row(h, draw) {
  const tone = h.error || h.state === "lost" ? "bad" : h.state === "drained" || h.state === "draining" ? "warn" : "good";
  const slots = Object.entries(h.backends ?? {}).map(([name, room]) => `${name}: ${room.used} of ${room.slots} used${room.warm ? `, ${room.warm} warm` : ""}`).join("; ");
  const [path, text] = h.state === "running" ? ["drain", "Drain"] : ["resume", "Resume"];
  const change = el("button", { type: "button", "data-host": h.name, "aria-label": `${text} ${h.name}`, click: () => post(`hosts/${encodeURIComponent(h.name)}/${path}`).then(draw).catch((error) => complain(error.message)) }, text);
  return [visible(h.name), el("span", { class: tone }, visible(h.state), h.error ? el("small", { class: "match" }, visible(h.error)) : null), slots, { number: `${h.load.toFixed(1)} of ${h.cpus} CPUs` }, visible(h.version ?? ""), new Date(h.seen_at).toLocaleString(), change];
}

// drawEndpoints shows each endpoint with what the gateway knows of it, which operators alone may ask for.
async function drawEndpoints(known) {
  const loads = await Promise.all(known.map((e) => (e.url ? get("endpoints/" + encodeURIComponent(e.endpoint)).catch((error) => error) : null)));
  const rows = known.map((e, i) => [e.endpoint, state(e), calls(loads[i]), visible(e.model ?? ""), visible(e.url ?? "")]);
  $("endpoint-list").replaceChildren(...table(["Endpoint", "Probe", "Calls", "Model", "URL"], rows));
  const audits = known.flatMap((e, i) => (loads[i]?.audit ? [audit(e.endpoint, loads[i].audit)] : []));
  if ($("endpoint-audits").textContent !== audits.map((node) => node.textContent).join("")) $("endpoint-audits").replaceChildren(...audits);
}

function calls(load) {
  if (!load) return "";
  const small = (text, tone = "") => el("small", { class: "match " + tone }, visible(text));
  if (load instanceof Error) return [el("span", { class: "quiet" }, "not known"), small(load.message)];
  const faults = Object.entries(load.faults ?? {}).sort().map(([fault, n]) => `${fault.replaceAll("_", " ")}: ${n} replies`);
  return [
    `${load.in_flight} in flight, ${load.queued} waiting`,
    load.version ? small("weights " + load.version) : null,
    load.paused_until ? small("paused until " + new Date(load.paused_until).toLocaleString(), "warn") : null,
    load.unreachable ? small(load.unreachable, "bad") : null,
    load.busy && load.busy !== load.unreachable ? small("new rollouts wait: " + load.busy, "warn") : null,
    load.silent_since ? small(`silent since ${new Date(load.silent_since).toLocaleTimeString()}: it may be frozen`, "bad") : null,
    faults.length ? small(faults.join(", "), "bad") : null,
  ];
}

// audit shows whether recorded log probabilities fit the weights.
function audit(endpoint, { turns, marked, versions, skipped }) {
  const left = Object.entries(skipped ?? {}).sort().map(([reason, n]) => `${n} ${reason}`);
  const nats = (n) => ({ number: n.toFixed(4) });
  return el("div", {},
    el("h3", {}, "Latest audit of " + visible(endpoint)),
    el("p", {}, `${turns} turns scored again, `, el("span", { class: marked ? "bad" : "good" }, `${marked} marked`), left.length ? `. Left out: ${visible(left.join(", "))}` : "", "."),
    el("div", { class: "wide names", tabindex: "0", role: "region", "aria-label": "Latest audit of " + visible(endpoint) }, el("table", {}, table(
      ["Weights", { number: "Turns" }, { number: "Tokens" }, { number: "Mean difference" }, { number: "K1" }, { number: "K3" }],
      versions.map((v) => [v.version ? visible(v.version) : "without a name", { number: v.turns }, { number: v.tokens.toLocaleString("en") }, nats(v.mean_abs), nats(v.k1), nats(v.k3)])))),
    el("small", {}, "Differences are recorded log probabilities less those of the same tokens now, in nats; K1 and K3 estimate the KL divergence. A marked turn does not fit the weights that it names."));
}

// drawWaiting groups the rollouts that wait by the reason.
function drawWaiting({ rollouts, next }) {
  const reasons = Map.groupBy(rollouts.filter((r) => r.waiting), (r) => r.waiting);
  const example = (all) => el("a", { href: "#/rollouts/" + encodeURIComponent(all[0].rollout_id) }, all[0].rollout_id);
  const rows = [...reasons].sort(([, a], [, b]) => b.length - a.length).map(([reason, all]) => [el("span", { class: "match" }, visible(reason)), { number: all.length }, example(all)]);
  $("waiting-list").replaceChildren(...(rows.length ? table(["Reason", { number: "Rollouts" }, "One of them"], rows) : []));
  show("waiting-none", !rows.length);
  show("waiting-cut", Boolean(next));
}
