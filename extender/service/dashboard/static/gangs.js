// The tables of gangs: those that wait, in the order of the queue, and those that have or had nodes.

import { swatch } from "./colours.js";
import { commandButton, gangCommands } from "./commands.js";
import { el, say } from "./dom.js";
import { count, domainName, expected, gbps, many, span } from "./format.js";
import { COLOURED, gangKey } from "./model.js";
import { named } from "./past.js";
import { gangLink, pageLink } from "./route.js";
import { Table } from "./table.js";

const PHASES = [
  ["Running", "running"],
  ["Scheduling", "starting"],
  ["Finished", "finished"],
  ["Failed", "failed"],
];

/** What a column shows, by its name; `mark(row)` is called for what stands before a gang's name. */
function columns(mark) {
  const link = (row) =>
    el("span", { class: "gang" }, mark(row), el("a", { href: gangLink(gangKey(row)) }, gangKey(row)), commands(row));
  return {
    place: { title: "#", kind: "number", sort: (row) => -row.position, cell: (row) => count(row.position) },
    gang: { title: "Gang", head: true, sort: gangKey, cell: link },
    why: { title: "Why it waits", kind: "words", sort: (row) => row.reason?.code, cell: why },
    start: { title: "Expected start", kind: "when", sort: (row) => row.expectedStart?.at, cell: start },
    phase: { title: "Phase", kind: "phase", sort: (row) => row.phase, cell: phase },
    where: { title: "Where", kind: "name", sort: (row) => row.domain, cell: whereabouts },
    predicted: {
      title: "Predicted",
      kind: "number",
      hint: "bus bandwidth predicted where it is",
      sort: (row) => row.busBandwidthGBps,
      cell: (row) => (row.busBandwidthGBps === null ? "–" : gbps(row.busBandwidthGBps)),
    },
    queue: { title: "Queue", kind: "name", sort: (row) => row.queue, cell: (row) => named("queues", row.queue) },
    priority: { title: "Priority", kind: "number", sort: (row) => row.priority, cell: (row) => count(row.priority) },
    gpus: { title: "GPUs", kind: "number", sort: (row) => row.gpus, cell: (row) => count(row.gpus) },
    nodes: { title: "Nodes", kind: "number", sort: (row) => row.nodes, cell: (row) => count(row.nodes) },
    members: {
      title: "Members",
      kind: "number",
      hint: "bound to nodes or succeeded / minMember",
      sort: (row) => row.minMember,
      cell: members,
    },
    age: { title: "Age", kind: "number", sort: (row) => (row.since ? -Date.parse(row.since) : null), cell: age },
  };
}

/** A table of gangs. `point(gang)` is called with the gang that the pointer or the focus is on, "" for none. */
class GangTable {
  constructor(host, heading, { name, label, shown }, { modes, point }) {
    Object.assign(this, { heading, modes });
    this.kept = [];
    this.stamp = "";
    const known = columns((row) => this.mark(row));
    this.table = new Table({
      name,
      label,
      columns: shown.map((id) => ({ id, ...known[id] })),
      key: gangKey,
      stamp: (row, now) => JSON.stringify([row, age(row, now), expected(row.expectedStart, now), this.modes.row(row)]),
      attributes: (row) => ({ "data-gang": gangKey(row) }),
    });
    host.append(this.table.frame);
    const { body } = this.table;
    for (const kind of ["pointerover", "focusin"]) {
      body.addEventListener(kind, (event) => point(event.target.closest("tr")?.dataset.gang ?? ""));
    }
    body.addEventListener("pointerleave", () => point(""));
    body.addEventListener("focusout", () => point(""));
  }

  /** Return the rows that the filter keeps: the same list as long as neither they nor the filter changed. */
  keep(rows, model, filter) {
    const stamp = `${model.turns} ${filter.stamp}`;
    if (this.stamp !== stamp) this.kept = rows().filter((row) => filter.gang(row));
    this.stamp = stamp;
    return this.kept;
  }

  mark(row) {
    if (COLOURED.includes(row.phase)) return swatch(this.modes.row(row));
    return row.position ? null : el("i", { class: "swatch none" });
  }
}

/** The gangs that wait. */
export class WaitingTable extends GangTable {
  constructor(host, heading, hooks) {
    const shown = ["place", "gang", "why", "start", "queue", "priority", "gpus", "members", "age"];
    super(host, heading, { name: "waiting", label: "Waiting gangs", shown }, hooks);
  }

  update(model, filter) {
    const all = model.waiting().length;
    const rows = () => model.waiting().map((row, index) => ({ ...row, position: index + 1 }));
    say(this.heading, all ? `${many(all, "gang")} in the order of the queue` : "");
    const empty = filter.on && all ? "No waiting gang matches the filter." : "No gang waits.";
    this.table.show(this.keep(rows, model, filter), { now: model.now(), empty });
  }
}

/** The gangs that have nodes, or had them. */
export class PlacedTable extends GangTable {
  constructor(host, heading, hooks) {
    const shown = ["gang", "phase", "where", "predicted", "queue", "gpus", "nodes", "members", "age"];
    super(host, heading, { name: "started", label: "Started gangs", shown }, hooks);
  }

  update(model, filter) {
    const all = model.placed();
    const kept = this.keep(() => all, model, filter);
    const words = PHASES.map(([phase, word]) => [all.filter((row) => row.phase === phase).length, word]);
    say(
      this.heading,
      words
        .filter(([number]) => number)
        .map(([number, word]) => `${count(number)} ${word}`)
        .join(", "),
    );
    const empty = filter.on && all.length ? "No such gang matches the filter." : "No gang has a node.";
    this.table.show(kept, { now: model.now(), empty });
  }
}

/** Return a button for what people do about a gang. */
function commands(row) {
  const placed = COLOURED.includes(row.phase);
  return commandButton(gangKey(row), () => gangCommands(gangKey(row), { waits: !placed, runs: placed }));
}

function why({ reason }) {
  if (!reason) return "–";
  return [el("span", { class: "reason" }, reason.code), ` ${reason.message}`];
}

function start(row, now) {
  const text = expected(row.expectedStart, now) || "–";
  return row.expectedStart?.overdue ? el("span", { class: "late" }, text) : text;
}

const phase = (row) => (row.evicted ? `${row.phase}, evicted` : row.phase);

/** Write how many members are bound to nodes or have succeeded, of how many minMember asks for. */
function members({ members: { bound, succeeded }, minMember }) {
  return `${count(bound + succeeded)} / ${count(minMember)}`;
}

function whereabouts({ level, domain, nodes }) {
  if (!level) return "–";
  if (level === "cluster" || !domain) return nodes > 1 ? "across the cluster" : "–";
  return level === "node" ? el("a", { href: pageLink("nodes", domain) }, domain) : domainName(level, domain);
}

/** Write a gang's age; seconds only in its first minutes, so that rows are not written each second. */
function age(row, now) {
  const seconds = Math.max(0, (row.since ? now - Date.parse(row.since) : 0) / 1000);
  if (seconds < 60) return `${Math.floor(seconds / 5) * 5} s`;
  return span(seconds < 600 ? Math.floor(seconds / 10) * 10 : Math.floor(seconds / 60) * 60);
}
