// The stream of server-sent events, read with fetch: unlike EventSource that tells why it was refused, and heartbeats.

import { ask, first } from "./first.js";

const QUIET_MS = 25_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;

/** A connection that is opened again whenever it ends. */
export class Stream {
  /**
   * @param {(kind: string, data: object) => void} told takes each message
   * @param {(state: string, why: string) => void} turned takes "connecting", "live", "refused" or "lost", and why
   */
  constructor(told, turned) {
    this.opened = first;
    this.told = told;
    this.turned = turned;
    this.pause = FIRST_PAUSE_MS;
    this.abort = null;
    this.timer = 0;
    addEventListener("online", () => this.hurry());
    addEventListener("pageshow", (event) => event.persisted && this.hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
  }

  /** Connect, and stay connected. */
  async run() {
    for (;;) {
      const why = await this.once();
      this.turned(why.state, why.text);
      await this.wait(this.pause);
      this.pause = Math.min(this.pause * 1.6, LONGEST_PAUSE_MS);
    }
  }

  /** Try again at once where a pause is under way. */
  hurry() {
    if (this.wake) this.wake();
  }

  wait(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    }).finally(() => {
      this.wake = null;
    });
  }

  /** Return the connection to read next: at first the one that is on its way since the page was opened. */
  next() {
    const opened = this.opened;
    this.opened = null;
    if (opened) return opened;
    const controller = new AbortController();
    return { controller, answer: ask(controller.signal) };
  }

  /** Read one connection to its end; return how it ended. */
  async once() {
    const { controller, answer: coming } = this.next();
    this.abort = controller;
    try {
      this.heard();
      const answer = await coming;
      if (!answer.ok) return { state: "refused", text: await reason(answer) };
      await this.read(answer.body.getReader());
      return { state: "lost", text: "the service ended the connection" };
    } catch (error) {
      return {
        state: "lost",
        text: error.name === "AbortError" ? "the service fell silent" : "the service does not answer",
      };
    } finally {
      clearTimeout(this.timer);
      this.abort.abort();
    }
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let parts = []; // of a message that has not ended; a board comes in a hundred, and is not searched for its end in each
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.heard();
      parts.push(decoder.decode(value, { stream: true }));
      if (!/\n\r?\n/.test((parts.at(-2) ?? "").slice(-2) + parts.at(-1))) continue;
      const messages = parts.join("").split(/\r?\n\r?\n/);
      parts = [messages.pop()];
      for (const message of messages) await this.take(message);
    }
  }

  async take(message) {
    let kind = "message";
    const data = [];
    for (const line of message.split(/\r?\n/)) {
      if (line.startsWith("event:")) kind = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5));
    }
    if (!data.length) return;
    const told = JSON.parse(data.join("\n"));
    if (kind === "board") await new Promise((resolve) => setTimeout(resolve)); // reading a large one is a task by itself
    this.told(kind, told);
    this.pause = FIRST_PAUSE_MS;
    this.turned("live", "");
  }

  /** Note that something came; where nothing does for a while, not even a heartbeat, the connection is given up. */
  heard() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.abort.abort(), QUIET_MS);
  }
}

/** Return what a refusal says: the detail of its JSON, or its status. */
export async function reason(answer) {
  try {
    const { detail } = await answer.json();
    if (typeof detail === "string") return detail;
  } catch {
    // A proxy's page; its status says enough.
  }
  return `HTTP ${answer.status} ${answer.statusText}`.trim();
}
