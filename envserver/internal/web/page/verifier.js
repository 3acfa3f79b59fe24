// How the reward came about: the commands of the task and of the verifier with their outputs, the failing one open.
import { el, facts, seconds } from "./dom.js";
import { ending } from "./steps.js";
import { block, visible } from "./text.js";

/** verifier returns the node of a result's grading. */
export function verifier(r) {
  const list = r.verify_results ?? [];
  const script = r.verifier_stdout || r.verifier_stderr || r.test_exit_code !== null && r.test_exit_code !== undefined;
  const nothing = !list.length && !script;
  const steps = r.steps ?? [];
  return el("div", {},
    steps.length ? [el("h3", {}, "Steps"), el("ol", { class: "steps" }, steps.map((step) => el("li", {}, el("b", {}, visible(step.name)), " ", ending(step).flatMap((node) => [node, " "])))),
      el("h3", {}, `Verifier of step ${steps.length}`), el("p", { class: "quiet" }, "The result has the commands and outputs of the last step only.")] : null,
    facts([
      ["Grading", r.grading?.status?.replaceAll("_", " ")], ["Why", visible(r.grading?.why ?? "")], ["Reward", r.reward ?? "none"],
      ...Object.entries(r.rewards ?? {}).map(([name, value]) => ["Reward " + visible(name), value]),
      ["Not seen by the verifier", (r.grading?.unseen ?? []).map(visible).join("\n")],
    ]),
    nothing ? el("p", { class: "quiet" }, "No verifier ran.") : null,
    list.map((c, i) => command(c, `Command ${i + 1} of ${list.length}`)),
    script ? command({ cmd: "", exit_code: r.test_exit_code, stdout: r.verifier_stdout, stderr: r.verifier_stderr }, "Test script") : null,
    (r.setup_results ?? []).length ? [el("h3", {}, "Setup"), r.setup_results.map((c, i) => command(c, `Command ${i + 1} of ${r.setup_results.length}`))] : null);
}

function command(c, name) {
  const failed = Boolean(c.exit_code);
  const first = visible((c.cmd || "").split("\n")[0].slice(0, 120));
  const status = Number.isInteger(c.exit_code) ? el("span", { class: failed ? "bad" : "good" }, `exit ${c.exit_code}`) : null;
  const output = (title, text) => (text ? [el("h4", {}, title), block(text)] : []);
  return el("details", { class: "command-result" + (failed ? " has-failed" : ""), open: failed },
    el("summary", {}, el("b", {}, name), " ", el("code", {}, first), el("span", { class: "chips" }, status, el("span", {}, seconds(c.duration_s ?? null)))),
    c.cmd ? block(c.cmd, { className: "command" }) : null, output("stdout", c.stdout), output("stderr", c.stderr),
    c.stdout || c.stderr ? null : el("p", { class: "quiet" }, "no output"));
}
