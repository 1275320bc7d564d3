// Questions about the past, which the stream does not answer: asked when a page opens, and again while it is shown.

import { el } from "./dom.js";
import { reason } from "./stream.js";

const AGAIN_MS = 60_000;
const RETRY_MS = 10_000;
const NOT_FOUND = 404;

/** An answer that is none: `kept` is false where no history is kept, and never will be with these settings. */
class Refusal extends Error {
  constructor(text, kept) {
    super(text);
    this.kept = kept;
  }
}

/** Return what the service answers at a path, with the parameters that are not empty; throw a Refusal otherwise. */
export async function ask(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value);
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  const answer = await fetch(`${path}?${query}`, { cache: "no-store" });
  if (!answer.ok) throw new Refusal(await reason(answer), answer.status !== NOT_FOUND);
  return answer.json();
}

/** Asks with `ask()` and hands what comes to `take(told)`, what goes wrong to `fail(words)`, while it is on. */
export class Asking {
  constructor({ ask, take, fail }) {
    Object.assign(this, { ask, take, fail });
    this.turn = 0;
    this.timer = 0;
  }

  start() {
    this.stop();
    this.once(this.turn);
  }

  stop() {
    this.turn += 1;
    clearTimeout(this.timer);
  }

  async once(turn) {
    let pause = AGAIN_MS;
    try {
      const told = await this.ask();
      if (turn !== this.turn) return;
      this.take(told);
    } catch (error) {
      if (turn !== this.turn) return;
      const refused = error instanceof Refusal;
      if (!refused && !(error instanceof TypeError)) throw error;
      pause = RETRY_MS;
      this.fail(refused ? error.message : "the service does not answer");
      if (refused && !error.kept) return;
    }
    this.timer = setTimeout(() => this.once(turn), pause);
  }
}

/** Return what is said where there is no answer. */
export const unanswered = (words) => el("p", { class: "notice" }, `The past cannot be shown: ${words}.`);
