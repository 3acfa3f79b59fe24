// Draws a page again at intervals. One page is open at a time.
import { complain } from "./dom.js";

const every = 5000;
let pageLeft = new AbortController();

/** keep draws now and then at intervals until stop is called. */
export async function keep(draw) {
  stop();
  pageLeft = new AbortController();
  const { signal } = pageLeft;
  await draw();
  const again = async () => {
    if (signal.aborted) return;
    await draw().catch((error) => complain(error.message));
    setTimeout(again, every);
  };
  setTimeout(again, every);
}

export function stop() {
  pageLeft.abort();
}
