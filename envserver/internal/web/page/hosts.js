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
    const [hosts, known, running] = await Promise.all([get("hosts").catch((error) => error), probes(), get(`rollouts?status=running&detail=true&limit=${most}`)]);
    drawHosts(hosts, draw);
    $("endpoint-list").replaceChildren(...table(["Endpoint", "Probe", "Model", "URL"], (known ?? []).map((e) => [e.endpoint, state(e), visible(e.model ?? ""), visible(e.url ?? "")])));
    drawWaiting(running);
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

// drawWaiting groups the rollouts that wait by the reason.
function drawWaiting({ rollouts, next }) {
  const reasons = Map.groupBy(rollouts.filter((r) => r.waiting), (r) => r.waiting);
  const example = (all) => el("a", { href: "#/rollouts/" + encodeURIComponent(all[0].rollout_id) }, all[0].rollout_id);
  const rows = [...reasons].sort(([, a], [, b]) => b.length - a.length).map(([reason, all]) => [el("span", { class: "match" }, visible(reason)), { number: all.length }, example(all)]);
  $("waiting-list").replaceChildren(...(rows.length ? table(["Reason", { number: "Rollouts" }, "One of them"], rows) : []));
  show("waiting-none", !rows.length);
  show("waiting-cut", Boolean(next));
}
