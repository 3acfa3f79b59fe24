// Requests to the server. The token and the id of this tab's session are kept only in the tab.
import { answer, place } from "./saved.js";

const base = new URL("..", location.href);
let askForToken = () => {};

export function onTokenWanted(then) {
  askForToken = then;
}

const token = () => sessionStorage.getItem("token");

export function useToken(text) {
  sessionStorage.setItem("token", text);
}

/** session returns the id of this tab's own session, so that two users do not share an episode. */
export function session() {
  let id = sessionStorage.getItem("session");
  if (!id) {
    id = "web-" + random();
    sessionStorage.setItem("session", id);
  }
  return id;
}

export function random() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/** ask sends a request and returns the response. A refused request throws an Error with the server's message. */
export async function ask(path, options = {}) {
  const response = place ? answer(path) : await request(path, options);
  if (response.ok) return response;
  if (response.status === 401) askForToken();
  const text = await response.text();
  let detail = text;
  try {
    detail = JSON.parse(text).detail;
  } catch {
    // not JSON: the answer of a proxy
  }
  throw Object.assign(new Error(typeof detail === "string" ? detail : JSON.stringify(detail)), { status: response.status });
}

function request(path, options) {
  const headers = { "X-Session-Id": session(), ...options.headers };
  if (token()) headers.Authorization = "Bearer " + token();
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(new URL(path, base), { ...options, headers }).catch((error) => {
    throw error.name === "AbortError" ? error : Object.assign(new Error("The server does not answer. The page goes on when it does."), { status: 503 });
  });
}

/** download saves an answer as a file; a link could not carry the token. */
export async function download(path, name) {
  const url = URL.createObjectURL(await (await ask(path)).blob());
  const link = document.createElement("a");
  [link.href, link.download] = [url, name];
  link.click();
  URL.revokeObjectURL(url);
}

export const get = async (path) => (await ask(path)).json();
export const post = async (path, body) => (await ask(path, { method: "POST", body: JSON.stringify(body) })).json();

/** pages asks for the first n pages of a list, whose name is that of its field, too. more: there are others. */
export async function pages(name, query, n) {
  const items = [];
  let cursor = "";
  for (let page = 0; page < n && (page === 0 || cursor); page++) {
    const found = await get(`${name}?` + new URLSearchParams({ ...query, limit: 100, ...(cursor && { cursor }) }));
    items.push(...found[name]);
    cursor = found.next ?? "";
  }
  return { items, more: cursor !== "" };
}

/** watch opens the socket with updates of this tab's session. A browser can send the token only as a subprotocol. */
export function watch(onUpdate, onEnd) {
  const url = new URL("ws/ui?session_id=" + encodeURIComponent(session()), base);
  url.protocol = url.protocol.replace("http", "ws");
  const protocols = token() ? ["rolloutd.ui", "rolloutd.token." + base64url(token())] : ["rolloutd.ui"];
  const socket = new WebSocket(url, protocols);
  socket.onmessage = (event) => onUpdate(JSON.parse(event.data).episode_state);
  socket.onclose = onEnd;
}

function base64url(text) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * events calls onEvent with the name, the data and the id of each server-sent event after one until the stream ends or signal aborts; EventSource cannot
 * send a token.
 */
export async function events(path, { signal, after, onOpen = () => {} }, onEvent) {
  const response = await ask(path, { signal, headers: after ? { "Last-Event-ID": after } : {} });
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const name = /^event: (.*)$/m.exec(block);
      const data = /^data: (.*)$/m.exec(block);
      const id = /^id: (\d+)$/m.exec(block);
      if (name && data) onEvent(name[1], JSON.parse(data[1]), id?.[1]);
    }
  }
}
