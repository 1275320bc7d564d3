// Gangs of the past: how a record of the history is told, and a table of them that goes back as far as it is asked.

import { ask } from "./asking.js";
import { el, say } from "./dom.js";
import { clock, count, many, span, tenths } from "./format.js";
import { pageLink } from "./route.js";
import { Table } from "./table.js";

const PAGE = 100;

/** The outcomes by which gangs are looked for, the first for all that ended. */
export const OUTCOMES = ["", "Succeeded", "Failed", "Evicted", "Deleted", "Running"];

/** Return the link to the page of a gang's past. */
export const pastLink = (row) => pageLink("history", row.namespace, row.name);

/** Return a link to the page of a queue, team, user or node; a dash for none. */
export const named = (path, name) => (name ? el("a", { href: pageLink(path, name) }, name) : "–");

/** Return how a gang ended, or that it has not, as a badge. */
export function outcome({ outcome }) {
  const kind = { Succeeded: "good", Failed: "bad", Evicted: "bad", Running: "good", Waiting: "warn" }[outcome] ?? "";
  return el("span", { class: `badge ${kind}` }, outcome);
}

/** Return what became of a gang in its order: {kind, from, until, where, why}, times in milliseconds since 1970. */
export function chapters(row, now) {
  const end = row.ended ? Date.parse(row.ended) : now;
  const parts = [];
  let at = Date.parse(row.created);
  const wait = (until, why) => until - at >= 1000 && parts.push({ kind: "waited", from: at, until, where: "", why });
  for (const run of row.runs) {
    const from = Date.parse(run.began);
    const until = run.ended ? Date.parse(run.ended) : end;
    wait(from, at === Date.parse(row.created) ? reasonOf(row) : "");
    const left = run.evicted ? `evicted: ${run.evicted}${run.by ? ` for ${run.by}` : ""}` : "";
    parts.push({ kind: "ran", from, until, where: run.nodes, why: left });
    at = until;
  }
  wait(end, row.runs.length ? "" : reasonOf(row));
  return parts;
}

/** Return the names of nodes that were folded as Slurm does: gpu-[08-10],b; of what was cut off nothing is known. */
export function unfolded(text) {
  const names = new Set();
  for (const [, stem, runs] of text.matchAll(/([^,[\]]+)(?:\[([\d,-]+)\])?/g)) {
    if (!runs) names.add(stem);
    for (const run of runs?.split(",") ?? []) {
      const [first, last = first] = run.split("-");
      for (let number = Number(first); number <= Number(last); number += 1) {
        names.add(stem + String(number).padStart(first.length, "0"));
      }
    }
  }
  return names;
}

const reasonOf = ({ reason, message }) => [reason, message].filter(Boolean).join(": ");
const number = (id, title, sort, write = count) => ({
  id,
  title,
  kind: "number",
  sort,
  cell: (row) => write(sort(row)),
});

const COLUMNS = [
  {
    id: "gang",
    title: "Gang",
    head: true,
    sort: (row) => `${row.namespace}/${row.name}`,
    cell: (row) => el("a", { href: pastLink(row) }, `${row.namespace}/${row.name}`),
  },
  { id: "outcome", title: "Outcome", sort: (row) => row.outcome, cell: outcome },
  {
    id: "ended",
    title: "Ended",
    kind: "when",
    sort: (row) => row.ended,
    cell: (row, now) => (row.ended ? clock(row.ended, now) : "–"),
  },
  number("waited", "Waited", (row) => row.waitedSeconds, span),
  number("ran", "Ran", (row) => row.ranSeconds, span),
  number("gpus", "GPUs", (row) => row.gpus),
  number("hours", "GPU-hours", (row) => row.gpuSeconds.used / 3600, tenths),
  number("evictions", "Evicted", (row) => row.evictions),
  { id: "queue", title: "Queue", kind: "name", sort: (row) => row.queue, cell: (row) => named("queues", row.queue) },
  { id: "user", title: "User", kind: "name", sort: (row) => row.user, cell: (row) => named("users", row.user) },
  { id: "nodes", title: "Nodes", kind: "name", sort: (row) => row.nodeCount, cell: (row) => row.nodes || "–" },
  { id: "why", title: "Why it waited", kind: "words", sort: (row) => row.reason, cell: (row) => reasonOf(row) || "–" },
];

/** A table of gangs that ended, the latest first, with a button for older ones. Append `frame`. */
export class PastTable {
  /** `refused(words)` is called where older ones cannot be had. */
  constructor(label, refused) {
    this.refused = refused;
    this.rows = [];
    this.asked = {};
    this.next = null;
    this.table = new Table({
      name: "past",
      label,
      columns: COLUMNS,
      key: (row) => row.uid,
      stamp: (row) => JSON.stringify(row),
    });
    this.older = el(
      "button",
      { type: "button", class: "more", hidden: true, onclick: () => this.extend() },
      "Older gangs",
    );
    this.heading = el("p", { class: "count", role: "status" });
    this.frame = el("div", {}, this.heading, this.table.frame, this.older);
  }

  /** Ask for the latest gangs of all that the parameters name. */
  ask(parameters) {
    return ask("api/v1/history", { ...parameters, limit: PAGE });
  }

  /** Show what was told to `ask`; what has been had of older ones stays while the same is asked for. */
  show(told, parameters) {
    const same = JSON.stringify(parameters) === JSON.stringify(this.asked);
    const known = new Set(told.gangs.map((row) => row.uid));
    const before = same && this.rows.length > told.gangs.length ? this.rows.filter((row) => !known.has(row.uid)) : [];
    if (!before.length) this.next = told.next;
    this.asked = parameters;
    this.list([...told.gangs, ...before], Date.parse(told.asOf));
  }

  async extend() {
    const asked = this.asked;
    this.older.disabled = true;
    try {
      const told = await ask("api/v1/history", { ...asked, limit: PAGE, after: this.next });
      if (asked !== this.asked) return;
      this.next = told.next;
      this.list([...this.rows, ...told.gangs], Date.parse(told.asOf));
    } catch (error) {
      this.refused(error.message);
    } finally {
      this.older.disabled = false;
    }
  }

  list(rows, now) {
    this.rows = rows;
    this.table.show(rows, { now, empty: this.next ? "None among the latest." : "No such gang is in the history." });
    this.older.hidden = !this.next;
    say(this.heading, `${many(rows.length, "gang")}${this.next ? ", and older ones" : ""}`);
  }
}
