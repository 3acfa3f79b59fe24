// A page that was saved as one file: it has the answers of the server in it.

const answers = new Map([...document.querySelectorAll("script[data-path]")].map((node) => [node.dataset.path, node]));

/** place is where a saved page opens, such as #/rollouts/ID; undefined on a page of a server. */
export const { place } = document.documentElement.dataset;

/** answer returns the response to a request that was recorded. 404 would say that the server has nothing either. */
export function answer(path) {
  const node = answers.get(path);
  if (!node) return Response.json({ detail: "This file does not have it: ask the server." }, { status: 410 });
  const bytes = Uint8Array.from(atob(node.textContent), (c) => c.charCodeAt(0));
  const status = Number(node.dataset.status);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")), { status });
}
