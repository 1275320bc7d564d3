// What the colours of the picture tell: gangs, queues, states, ages, products or what is free; the address says which.

import { Colours, OTHER, SCALE, STEPS, swatch } from "./colours.js";
import { el } from "./dom.js";
import { count } from "./format.js";
import { COLOURED, gangKey } from "./model.js";
import { see, seen } from "./route.js";

export const MODES = ["gang", "queue", "state", "age", "product", "free"];
/** With more gangs than these, colours by gang say little: queues are shown unless the reader asks for gangs. */
const MOST_GANGS = 40;
const MOST_ENTRIES = 12;
const AGES = [
  [600, "under 10 min"],
  [3_600, "under 1 h"],
  [6 * 3_600, "under 6 h"],
  [86_400, "under 1 d"],
  [7 * 86_400, "under 1 w"],
  [Infinity, "older"],
];
/** Slots of states. */
const STATES = { running: 0, starting: 1, closed: 5 };

/** Knows which slot a GPU has in the colours that the reader chose. */
export class Modes {
  constructor(model) {
    this.model = model;
    this.gangs = new Colours();
    this.queues = new Colours();
    this.products = new Colours();
    this.mode = "gang";
    this.stamp = "";
    this.places = false;
  }

  /** Take in whether places are shown in the place of nodes, which shows what is free best; return it. */
  crowded(places) {
    if (places !== this.places) {
      this.places = places;
      this.settle();
    }
    return places;
  }

  /** Take in which gangs, queues and products there are, and what the address asks for. */
  settle() {
    const { model } = this;
    const rows = model.placed().filter((row) => COLOURED.includes(row.phase));
    this.gangs.settle(rows.map(gangKey));
    this.queues.settle(model.queues.map((queue) => queue.name).concat(rows.map((row) => row.queue).filter(Boolean)));
    this.products.settle(model.products);
    const asked = seen("colour");
    const many = rows.length > MOST_GANGS && rows.some((row) => row.queue);
    this.mode = MODES.includes(asked) ? asked : this.places ? "free" : many ? "queue" : "gang";
    const minute = this.mode === "age" ? Math.floor(model.now() / 60_000) : 0;
    this.stamp = `${this.mode} ${model.turns} ${minute}`;
  }

  /** Show other colours; "" for those that suit the cluster. */
  choose(mode) {
    see("colour", mode);
    this.settle();
  }

  /** Return the slot of a gang's colour, whatever the picture shows. */
  gang(name) {
    return this.gangs.of(name);
  }

  /** Return the slot of a row of a gang: what its GPUs have in the picture, or its own where that is about nodes. */
  row(row) {
    if (this.mode === "queue") return row.queue ? this.queues.of(row.queue) : OTHER;
    if (this.mode === "state") return row.phase === "Scheduling" ? STATES.starting : STATES.running;
    if (this.mode === "age") return SCALE + this.age(row);
    return this.gangs.of(gangKey(row));
  }

  /** Return the slot of a GPU of a node that `holder` has, null for one in the colour of what is free. */
  slot(node, holder) {
    if (this.mode === "free") return SCALE + Math.round((STEPS - 1) * node.free);
    if (this.mode === "product") return node.product ? this.products.of(node.product) : OTHER;
    if (this.mode === "state" && !node.schedulable) return STATES.closed;
    if (!holder) return null;
    const row = this.model.gangs.get(holder);
    return row ? this.row(row) : OTHER;
  }

  age(row) {
    const seconds = (this.model.now() - Date.parse(row.startedAt ?? row.since ?? "")) / 1000;
    return Math.max(
      0,
      AGES.findIndex(([most]) => !(seconds >= most)),
    );
  }

  /** Return what the colours mean, as elements. */
  legend() {
    const entry = (mark, text) => el("span", {}, mark, text);
    const named = (colours, names) => {
      const shown = names.slice(0, MOST_ENTRIES).map((name) => entry(swatch(colours.of(name)), name));
      if (names.length > MOST_ENTRIES) shown.push(el("span", {}, `and ${count(names.length - MOST_ENTRIES)} more`));
      return shown;
    };
    const other = entry(swatch(OTHER), "pods of no gang");
    const tail = [
      entry(el("i", { class: "swatch free" }), "free"),
      entry(swatch(0, "reserved"), "reserved"),
      entry(el("i", { class: "swatch closed" }), "unschedulable"),
    ];
    const steps = (texts) => texts.map((text, step) => entry(swatch(SCALE + step), text));
    switch (this.mode) {
      case "queue":
        return [...named(this.queues, this.byGpus()), other, ...tail];
      case "state":
        return [
          entry(swatch(STATES.running), "running"),
          entry(swatch(STATES.starting), "starting"),
          entry(swatch(STATES.closed), "on unschedulable nodes"),
          other,
          ...tail.slice(0, 2),
        ];
      case "age":
        return [...steps(AGES.map(([, text]) => text)), other, ...tail];
      case "product":
        return [...named(this.products, this.model.products), ...tail.slice(1)];
      case "free":
        return [...steps(["none free", "", "", "", "", "all free"]), ...tail.slice(2)];
      default:
        return [entry(swatch(0), "used, a colour for each gang"), ...tail];
    }
  }

  /** Return the queues that hold GPUs, those with the most first. */
  byGpus() {
    const held = new Map();
    for (const row of this.model.placed()) {
      if (row.queue && row.gpusHeld) held.set(row.queue, (held.get(row.queue) ?? 0) + row.gpusHeld);
    }
    return [...held].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  }
}
