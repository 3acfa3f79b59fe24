// Draws a page again at intervals. One page is open at a time.
import { complain } from "./dom.js";

const every = 5000;
let pageLeft = new AbortController();

/**
 * keep draws now and then at intervals until stop is called or it is called again, also while the server, or a part that it needs, is away. draw gets a
 * signal: what it has asked for is not drawn any more when that is aborted.
 */
export async function keep(draw) {
  stop();
  pageLeft = new AbortController();
  const { signal } = pageLeft;
  let failed = false;
  try {
    await draw(signal);
    if (!signal.aborted) complain("");
  } catch (error) {
    if (signal.aborted) return;
    if (error.status < 500 || error.name === "AbortError") throw error;
    complain(error.message);
    failed = true;
  }
  const again = async () => {
    if (signal.aborted) return;
    try {
      await draw(signal);
      if (failed && !signal.aborted) complain("");
      failed = false;
    } catch (error) {
      if (!signal.aborted) complain(error.message);
      failed = true;
    }
    setTimeout(again, every);
  };
  setTimeout(again, every);
}

export function stop() {
  pageLeft.abort();
}

const rarely = 30_000; // what costs the server more than a look at a state

/** seldom returns a function that asks at most twice a minute, and else has the answer before. */
export function seldom(ask) {
  let [at, last] = [-Infinity, null];
  return async () => {
    if (performance.now() - at < rarely) return last;
    last = await ask();
    at = performance.now();
    return last;
  };
}
