// The model endpoints that the server knows by name.
import { get } from "./api.js";
import { el } from "./dom.js";
import { visible } from "./text.js";

/** endpoints asks the server for its endpoints, each with what a probe found; null: it does not show them. */
export const endpoints = () => get("endpoints").then((list) => list.endpoints, () => null);

/** state says whether an endpoint answers. */
export const state = (e) => el("span", { class: e.answers ? "good" : e.probe.startsWith("not configured") ? "quiet" : "bad" }, visible(e.probe));

/** choice makes the input of the argument endpoint: a list of those that there are, and a button that probes them. */
export function choice(all) {
  return (_, schema, attributes) => {
    const option = ({ endpoint, answers }) => el("option", { value: endpoint }, `${endpoint}${answers ? "" : " (does not answer)"}`);
    const input = el("select", { ...attributes, placeholder: null }, el("option", { value: "" }, "none: the URL or the key of a model is given"), all.map(option));
    const said = el("p", { role: "status" });
    const tell = () => {
      const chosen = all.find((e) => e.endpoint === input.value);
      said.replaceChildren(...(chosen ? [state(chosen), chosen.model ? el("span", { class: "quiet" }, `, its model is ${visible(chosen.model)}`) : ""] : []));
    };
    const test = el("button", { type: "button", click: async () => {
      test.disabled = true;
      said.textContent = "Asking …";
      const now = await endpoints();
      if (now) all = now;
      for (const e of all) [...input.options].find((o) => o.value === e.endpoint)?.replaceChildren(...option(e).childNodes);
      now ? tell() : (said.textContent = "The server does not say.");
      test.disabled = false;
    } }, "Test");
    input.addEventListener("change", tell);
    const write = (value = "") => {
      if (value && ![...input.options].some((o) => o.value === value)) input.append(el("option", { value }, value));
      input.value = value;
      tell();
    };
    return [el("div", {}, el("div", { class: "row" }, input, test), said), () => input.value || undefined, write];
  };
}
