// Asks for the stream before the other modules are there: the service collects the picture while they load.

/** The address of the stream, relative to the page. */
export const STREAM = "api/v1/stream";

/** Ask for the stream; `signal` ends that. */
export function ask(signal) {
  return fetch(STREAM, { headers: { Accept: "text/event-stream" }, cache: "no-store", signal });
}

const controller = new AbortController();
const answer = ask(controller.signal);
answer.catch(() => undefined); // its reader gets the failure

/** The first connection: its answer to come, and what ends it. */
export const first = { controller, answer };
