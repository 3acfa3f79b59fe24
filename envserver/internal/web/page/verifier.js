// How the reward came about: the commands of the task and of the verifier with their outputs, the failing one open.
import { el, facts, seconds } from "./dom.js";
import { stepHeading } from "./steps.js";
import { block, visible } from "./text.js";

/** verifier returns the node of a result's grading; of a task with steps, that of each. load returns the whole result. */
export function verifier(r, load) {
  const steps = r.steps ?? [];
  const setup = r.setup_results ?? [];
  return el("div", {},
    facts([
      ["Grading", r.grading?.status?.replaceAll("_", " ")], ["Why", visible(r.grading?.why ?? "")], ["Reward", typeof r.reward === "number" ? Number(r.reward.toPrecision(4)) : "none"],
      ...Object.entries(r.rewards ?? {}).map(([name, value]) => ["Reward " + visible(name), value]),
      ["Not seen by the verifier", (r.grading?.unseen ?? []).map(visible).join("\n")], ["Graded before", earlier(r.grading?.before)],
    ]),
    steps.length ? null : notes(r),
    // the output of the last step is the result's own
    steps.length ? steps.map((step, n) => el("section", {}, stepHeading(step, n), notes(step), ran(n === steps.length - 1 ? r : step, load))) : ran(r, load),
    setup.length ? [el("h3", {}, "Setup"), setup.map((c, i) => command(c, `Command ${i + 1} of ${setup.length}`))] : null);
}

// notes say what may have kept right work from its reward.
const notes = (of) => (of.grading?.notes ?? []).map((note) => el("p", { class: "warn" }, visible(note)));

// earlier is the grade whose place a regrade has taken; "": none has.
const earlier = (grade) => (grade ? [`reward ${grade.reward ?? "none"}`, ...[grade.outcome, grade.why, grade.error].filter(Boolean)].map(visible).join(", ") : "");

/** failedTest says in a line what a reward below the full one is for, where the grading itself says nothing; "": nothing is known. */
export function failedTest(r) {
  if (r.grading?.why || r.grading?.status !== "graded" || !(r.reward < 1)) return "";
  const list = r.verify_results ?? [];
  const n = list.findIndex((c) => c.exit_code);
  if (n >= 0) return `verify command ${n + 1} of ${list.length} failed (exit ${list[n].exit_code}): ${(telling(list[n].stderr, list[n].stdout) ?? `${list[n].cmd.split("\n")[0]}, without output`).slice(0, 300)}`;
  const said = telling(r.verifier_stderr, r.verifier_stdout);
  return said ? `the test script wrote: ${said.slice(0, 300)}` : "";
}

const fault = /error|exception|assert|no such|not found|denied|cannot|expected/i;

// telling is the line of outputs that most likely says what is wrong: the last one that names a fault, else the last one.
function telling(...outputs) {
  const all = outputs.map((text) => (text ?? "").split("\n").map((line) => line.trim()).filter(Boolean));
  return all.map((lines) => lines.findLast((line) => fault.test(line))).find(Boolean) ?? all.map((lines) => lines.at(-1)).find(Boolean);
}

// ran shows the commands and the script of a verifier.
function ran(of, load) {
  const list = of.verify_results ?? [];
  const script = of.verifier_stdout || of.verifier_stderr || Number.isInteger(of.test_exit_code);
  if (!list.length && !script) return el("p", { class: "quiet" }, "No verifier ran.");
  return [
    list.map((c, i) => command(c, `Command ${i + 1} of ${list.length}`, { load })),
    script ? command({ cmd: "", exit_code: of.test_exit_code, stdout: of.verifier_stdout, stderr: of.verifier_stderr }, "Test script", { open: !(of.reward >= 1) }) : null,
  ];
}

// A test script that says by its reward alone that it failed may exit with 0.
function command(c, name, { open = false, load = null } = {}) {
  const failed = Boolean(c.exit_code);
  const first = visible((c.cmd || "").split("\n")[0].slice(0, 120));
  const status = Number.isInteger(c.exit_code) ? el("span", { class: failed ? "bad" : "good" }, `exit ${c.exit_code}`) : null;
  const output = (title, text) => (text ? [el("h4", {}, title), block(text)] : []);
  return el("details", { class: "command-result" + (failed ? " has-failed" : ""), open: failed || open },
    el("summary", {}, el("b", {}, name), " ", el("code", {}, first), el("span", { class: "chips" }, status, el("span", {}, seconds(c.duration_s ?? null)))),
    c.cmd ? block(c.cmd, { className: "command" }) : null, output("stdout", c.stdout), output("stderr", c.stderr),
    c.stdout || c.stderr ? null : [el("p", { class: "quiet" }, "no output"), failed && load ? compared(c.cmd, load) : null]);
}

// compared shows the files that a command names as they were at the end: a test or a grep -q fails without a word.
function compared(cmd, load) {
  const node = el("div");
  load().then((result) => {
    const texts = Object.entries({ ...result.workdir_files, ...result.files });
    const all = [...texts.map(([name]) => name), ...(result.files_extra ?? [])];
    const words = new Set((cmd ?? "").match(/[\w@+./][\w@+./-]*/g) ?? []);
    const is = (word) => (name) => name === word || name.endsWith("/" + word.replace(/^(\.\/)+/, ""));
    for (const word of words) {
      const [name, text] = texts.find(([other]) => is(word)(other)) ?? [];
      if (name) node.append(el("h4", {}, `${visible(name)} at the end`), text ? block(text) : el("p", { class: "quiet" }, "empty"));
      else if (/\.[a-z]\w*$/i.test(word) && !all.some(is(word))) node.append(el("p", { class: "warn" }, `${visible(word)} is not among the files at the end that the tab Files shows.`));
    }
  }, () => {}); // the files are more than is needed
  return node;
}
