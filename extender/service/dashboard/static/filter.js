// The filter: words that all have to occur in what is told of a gang, a node, a queue or an event.

import { gangKey } from "./model.js";
import { see, seen } from "./route.js";

/** What the reader looks for, which the address says as `q`. `changed` is called when that is something else. */
export class Filter {
  constructor(input, changed) {
    this.input = input;
    this.asked = [];
    this.words = [];
    this.seq = -1;
    this.gangs = new Set();
    this.nodes = new Set();
    this.hosts = new Set();
    input.addEventListener("input", () => {
      this.take(input.value);
      changed();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !input.value) return;
      event.stopPropagation();
      input.value = "";
      this.take("");
      changed();
    });
  }

  /** Note what is looked for; `refresh` goes by it, so that words and what was found with them change together. */
  take(text) {
    this.asked = text.toLowerCase().split(/\s+/).filter(Boolean);
    see("q", text.trim());
  }

  /** Look for what the address says. */
  follow() {
    this.input.value = seen("q");
    this.take(this.input.value);
  }

  /** Return what is looked for as one text: another one when that is something else. */
  get stamp() {
    return this.words.join(" ");
  }

  get on() {
    return this.words.length > 0;
  }

  /** Look through the model's gangs and nodes as of `seq`: once for all that is drawn of them. */
  refresh(model) {
    Object.assign(this, { words: this.asked, seq: model.seq });
    if (!this.on) return;
    const nodes = [...model.nodes.values()];
    this.gangs = new Set([...model.gangs.values()].filter((row) => this.gang(row)).map(gangKey));
    this.nodes = new Set(nodes.filter((node) => this.matches(node.name, ...node.domains)).map((node) => node.name));
    const hosts = nodes.filter((node) => node.cells.some((holder) => this.gangs.has(holder)));
    this.hosts = new Set(hosts.map((node) => node.name));
  }

  /** Say whether all words occur in these texts together. */
  matches(...texts) {
    const all = texts.join("\n").toLowerCase();
    return this.words.every((word) => all.includes(word));
  }

  gang(row) {
    return !this.on || this.matches(gangKey(row), row.queue ?? "", row.phase, row.reason?.code ?? "", row.domain ?? "");
  }

  queue(queue) {
    return !this.on || this.matches(queue.name);
  }

  event(event) {
    return !this.on || this.matches(event.kind, event.gang, event.about, event.reason, event.message);
  }

  /** Say whether a node's GPU with that holder is looked for; without a holder, whether anything of the node is. */
  lit(node, holder) {
    if (!this.on || this.nodes.has(node.name)) return true;
    return holder ? this.gangs.has(holder) : this.hosts.has(node.name);
  }
}
