// Buttons for how far back a page looks, which the address keeps as `span`.

import { el } from "./dom.js";
import { see, seen } from "./route.js";

const HOUR_MS = 3_600_000;
const SPANS = { "24h": 24, "7d": 7 * 24, "30d": 30 * 24 };
const USUAL = "24h";

/** Calls `changed` when the reader chooses another span; append `frame`. */
export class Spans {
  constructor(changed) {
    this.changed = changed;
    this.buttons = new Map(
      Object.keys(SPANS).map((name) => [
        name,
        el("button", { type: "button", onclick: () => this.choose(name) }, name),
      ]),
    );
    this.frame = el("div", { class: "tools", role: "group", "aria-label": "Time" }, [...this.buttons.values()]);
  }

  /** Return which is chosen. */
  get name() {
    return Object.hasOwn(SPANS, seen("span")) ? seen("span") : USUAL;
  }

  choose(name) {
    see("span", name === USUAL ? "" : name);
    this.follow();
    this.changed();
  }

  /** Show which one the address asks for. */
  follow() {
    for (const [name, button] of this.buttons) button.setAttribute("aria-pressed", String(name === this.name));
  }

  /** Return when it begins, in milliseconds since 1970: whole minutes, so that what is asked twice is the same. */
  begin() {
    return Math.floor(Date.now() / 60_000) * 60_000 - SPANS[this.name] * HOUR_MS;
  }

  /** Return when it begins, as the API takes it. */
  since() {
    return new Date(this.begin()).toISOString();
  }
}
