// Selects the page and asks for the token.
import { onTokenWanted, useToken } from "./api.js";
import { $, complain, show } from "./dom.js";
import { episodes } from "./columns.js";
import { pair } from "./compare.js";
import * as groups from "./groups.js";
import * as hosts from "./hosts.js";
import * as keep from "./keep.js";
import { keys } from "./keys.js";
import { playground } from "./playground.js";
import * as producers from "./producers.js";
import * as rollout from "./rollout.js";
import * as rollouts from "./rollouts.js";
import { run } from "./run.js";
import { place } from "./saved.js";
import { sets, task } from "./tasks.js";

const pages = {
  run: (_, query) => run(query), playground: () => playground(), hosts: () => hosts.list(), rollouts: (_, query) => rollouts.list(query), rollout: (id, query) => rollout.rollout(id, query),
  groups: (_, query) => groups.list(query), group: (id) => groups.group(id), producers: (_, query) => producers.list(query), producer: (id) => producers.producer(id), task: (id) => task(id), sets: () => sets(), compare: (ids) => pair(ids),
};

// The link of the page's head that a page belongs to.
const of = { rollout: "rollouts", compare: "rollouts", task: "tasks", sets: "tasks", group: "groups", producer: "producers" };

function where() {
  const [path, query] = location.hash.replace(/^#\//, "").split("?");
  const [page, name] = path.split("/");
  const id = name && decoded(name);
  if (page === "compare" && id) return [page, id];
  if (page === "tasks") return id ? ["task", id] : ["sets"];
  if (["playground", "hosts"].includes(page)) return [page];
  if (!["rollouts", "groups", "producers"].includes(page)) return ["run", undefined, new URLSearchParams(query)];
  return [id ? page.slice(0, -1) : page, id, new URLSearchParams(query)];
}

// decoded is a name of the address, which a person may have written.
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

const away = [502, 503, 504]; // of answers for which the page is opened again
const pause = 5000;
let visits = 0;
let again = 0; // a timer

async function open() {
  const visit = ++visits;
  clearTimeout(again);
  const [page, id, query] = where();
  keep.stop();
  rollout.stop();
  complain("");
  document.body.dataset.page = page;
  const ofEpisodes = page === "rollouts" && episodes(query);
  const name = page === "sets" ? "task sets" : ofEpisodes ? "episodes" : page;
  document.title = `${id ?? name[0].toUpperCase() + name.slice(1)} – rolloutd`;
  for (const other of Object.keys(pages)) show(other, other === page);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === (ofEpisodes ? "#/rollouts?agent=interactive" : `#/${of[page] ?? page}`);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    await pages[page](id, query);
  } catch (error) {
    if (error.name === "AbortError" || visit !== visits) return; // another page is open
    complain(error.message);
    if (away.includes(error.status)) again = setTimeout(open, pause);
  }
}

onTokenWanted(() => {
  show("reference", false); // a link cannot carry a token
  show("token", true);
  $("token-text").focus();
});
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken($("token-text").value);
  show("token", false);
  open();
});
keys();
addEventListener("hashchange", open);
if (place && !location.hash) history.replaceState(null, "", place);
open();
