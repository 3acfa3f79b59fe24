// Two rollouts of a group side by side, from the first turn in which they differ.
import { get } from "./api.js";
import { $, complain, el, reveal } from "./dom.js";
import { transcript } from "./transcript.js";

/** pair shows the page of two rollouts side by side. */
export async function pair(ids) {
  const members = await Promise.all(ids.split(",").slice(0, 2).map((id) => get("rollouts/" + encodeURIComponent(id))));
  const form = compare(members);
  $("compare").replaceChildren(el("h2", { id: "compare-title" }, "Compare"), form ?? el("p", {}, "Two rollouts that have ended can be compared."));
  form?.querySelector("h2").remove();
  form?.querySelector("button").click();
}

/** compare returns a form that selects two of the members that have ended, and shows their conversations. */
export function compare(members) {
  const ended = members.filter((m) => m.outcome);
  if (ended.length < 2) return null;
  // at first the best and the worst
  const ranked = ended.filter((m) => typeof m.reward === "number").sort((a, b) => b.reward - a.reward);
  const pair = ranked.length > 1 ? [ranked[0], ranked.at(-1)] : ended;
  const choose = (label, chosen) => el("select", { "aria-label": label }, ended.map((m) => el("option", { value: m.rollout_id, selected: m === chosen }, `${m.rollout_id}: ${m.reward ?? m.outcome.replaceAll("_", " ")}`)));
  const [first, second] = [choose("First rollout", pair[0]), choose("Second rollout", pair[1])];
  const where = el("p", { role: "status" });
  const sides = el("div", { class: "compared" });
  const show = async (event) => {
    event.target.disabled = true;
    where.textContent = "Loading …";
    try {
      const shown = [first.value, second.value].map((id) => transcript("rollouts/" + encodeURIComponent(id), { onTurns: () => {} }));
      sides.replaceChildren(...shown.map((t, i) => el("section", { "aria-label": [first, second][i].value, tabindex: "0" }, el("h3", {}, el("a", { href: "#/rollouts/" + encodeURIComponent([first, second][i].value) }, [first, second][i].value)), t.node)));
      await Promise.all(shown.map(async (t, i) => t.load([], [], await isEpisode([first, second][i].value))));
      where.textContent = mark(shown);
    } catch (error) {
      where.textContent = "";
      complain(error.message);
    }
    event.target.disabled = false;
  };
  return el("div", {}, el("h2", {}, "Compare"), el("div", { class: "row" }, first, second, el("button", { type: "button", click: show }, "Show side by side")), where, sides);
}

const isEpisode = async (id) => (await get(`rollouts/${encodeURIComponent(id)}/result?part=head`)).agent === "interactive";

// What the model wrote in a turn.
const written = (turn) => JSON.stringify(turn.parts.filter((p) => ["text", "thinking", "tool_call"].includes(p.kind)).map((p) => [p.kind, p.name, p.text, p.bytes]));

// stepsOf are the turns of a transcript, or the calls of an episode, as [number, what was done].
const stepsOf = (t) => (t.turns.length ? t.turns.map((turn) => [turn.turn, written(turn)]) : t.called.map((call) => [call.turn, call.key]));

// mark shows the first turn that differs, and describes it.
function mark(pair) {
  const [a, b] = pair.map(stepsOf);
  const most = Math.max(a.length, b.length);
  let at = 0;
  while (at < Math.min(a.length, b.length) && a[at][1] === b[at][1]) at++;
  if (at === most) return `All ${most} turns are the same.`;
  pair.forEach((t, i) => {
    const steps = [a, b][i];
    const article = steps[at] && t.node.querySelector(`[data-turn="${steps[at][0]}"]`);
    if (!article) return;
    article.classList.add("first-difference");
    const box = article.closest("section");
    reveal(article, box);
    box.scrollTop += article.getBoundingClientRect().top - box.getBoundingClientRect().top;
  });
  return at ? `The first ${at} turns are the same; they differ from turn ${at + 1} on.` : "They differ from the first turn on.";
}
