// The tables of gangs: those that wait, in the order of the queue, and those that have or had nodes.

import { el, keyed, replace, say, tableHead } from "./dom.js";
import { count, domainName, expected, gbps, many, span } from "./format.js";
import { COLOURED, gangKey } from "./model.js";
import { gangLink } from "./route.js";

const FIRST_ROWS = 100;

const MEMBERS = "bound to nodes or succeeded / minMember";
const WAITING = [
  ["#", "number"],
  ["Gang"],
  ["Why it waits"],
  ["Expected start"],
  ["Queue"],
  ["Priority", "number"],
  ["GPUs", "number"],
  ["Members", "number", MEMBERS],
  ["Age", "number"],
];
const PLACED = [
  ["Gang"],
  ["Phase"],
  ["Where"],
  ["Predicted", "number"],
  ["Queue"],
  ["GPUs", "number"],
  ["Nodes", "number"],
  ["Members", "number", MEMBERS],
  ["Age", "number"],
];

/** A table of gangs. `point(gang)` is called with the gang that the pointer or the focus is on, "" for none. */
class GangTable {
  constructor(table, heading, columns, { colours, point }) {
    Object.assign(this, { table, heading, columns, colours });
    this.shown = FIRST_ROWS;
    this.body = el("tbody");
    this.more = el("button", { type: "button", class: "more", hidden: true, onclick: () => this.showMore() });
    replace(table, tableHead(columns), this.body);
    table.parentElement.append(this.more);
    for (const kind of ["pointerover", "focusin"]) {
      this.body.addEventListener(kind, (event) => point(event.target.closest("tr")?.dataset.gang ?? ""));
    }
    this.body.addEventListener("pointerleave", () => point(""));
    this.body.addEventListener("focusout", () => point(""));
  }

  showMore() {
    this.shown += 10 * FIRST_ROWS;
    this.again();
  }

  show(rows, cells, stamp, nothing) {
    this.again = () => this.show(rows, cells, stamp, nothing);
    const items = rows.slice(0, this.shown);
    keyed(this.body, items.length ? items : [null], {
      key: (row) => (row ? gangKey(row) : ""),
      stamp: (row) => (row ? stamp(row) : nothing),
      make: (row) => el("tr", row ? { "data-gang": gangKey(row) } : {}),
      refill: (element, row) => {
        if (!row) return replace(element, el("td", { colspan: this.columns.length, class: "empty" }, nothing));
        replace(element, cells(row));
        return undefined;
      },
    });
    this.more.hidden = rows.length <= this.shown;
    say(this.more, `Show more of ${count(rows.length)} gangs`);
  }

  link(row) {
    const name = gangKey(row);
    const coloured = COLOURED.includes(row.phase) && el("i", { class: this.colours.classes(name) });
    const swatch = coloured || (row.position === null && el("i", { class: "swatch none" }));
    return el("th", { scope: "row" }, el("span", { class: "gang" }, swatch, el("a", { href: gangLink(name) }, name)));
  }
}

/** The gangs that wait. */
export class WaitingTable extends GangTable {
  constructor(table, heading, hooks) {
    super(table, heading, WAITING, hooks);
  }

  update(model, filter) {
    const rows = model.waiting();
    const kept = rows.map((row, index) => ({ ...row, position: index + 1 })).filter((row) => filter.gang(row));
    say(this.heading, rows.length ? `${many(rows.length, "gang")} in the order of the queue` : "");
    const now = model.now();
    const cells = (row) => [
      el("td", { class: "number" }, count(row.position)),
      this.link(row),
      el("td", { class: "words" }, why(row)),
      el("td", { class: row.expectedStart?.overdue ? "when late" : "when" }, expected(row.expectedStart, now) || "–"),
      el("td", { class: "name" }, row.queue ?? "–"),
      el("td", { class: "number" }, count(row.priority)),
      el("td", { class: "number" }, count(row.gpus)),
      el("td", { class: "number" }, members(row)),
      el("td", { class: "number" }, age(row, now)),
    ];
    this.show(
      kept,
      cells,
      (row) => JSON.stringify([row, age(row, now), expected(row.expectedStart, now)]),
      filter.on && rows.length ? "No waiting gang matches the filter." : "No gang waits.",
    );
  }
}

/** The gangs that have nodes, or had them. */
export class PlacedTable extends GangTable {
  constructor(table, heading, hooks) {
    super(table, heading, PLACED, hooks);
  }

  update(model, filter) {
    const rows = model.placed();
    const kept = rows.filter((row) => filter.gang(row));
    const phases = [
      ["Running", "running"],
      ["Scheduling", "starting"],
      ["Finished", "finished"],
      ["Failed", "failed"],
    ];
    const words = phases
      .map(([phase, word]) => [rows.filter((row) => row.phase === phase).length, word])
      .filter(([number]) => number);
    say(this.heading, words.map(([number, word]) => `${count(number)} ${word}`).join(", "));
    const now = model.now();
    const cells = (row) => [
      this.link(row),
      el("td", { class: "phase" }, row.evicted ? `${row.phase}, evicted` : row.phase),
      el("td", { class: "name" }, whereabouts(row)),
      el("td", { class: "number" }, row.busBandwidthGBps === null ? "–" : gbps(row.busBandwidthGBps)),
      el("td", { class: "name" }, row.queue ?? "–"),
      el("td", { class: "number" }, count(row.gpus)),
      el("td", { class: "number" }, count(row.nodes)),
      el("td", { class: "number" }, members(row)),
      el("td", { class: "number" }, age(row, now)),
    ];
    this.show(
      kept,
      cells,
      (row) => JSON.stringify([row, age(row, now)]),
      filter.on && rows.length ? "No such gang matches the filter." : "No gang has a node.",
    );
  }
}

function why(row) {
  const { reason } = row;
  if (!reason) return "–";
  return [el("span", { class: "reason" }, reason.code), ` ${reason.message}`];
}

/** Write how many members are bound to nodes or have succeeded, of how many minMember asks for. */
function members({ members: { bound, succeeded }, minMember }) {
  return `${count(bound + succeeded)} / ${count(minMember)}`;
}

function whereabouts({ level, domain, nodes }) {
  if (!level) return "–";
  if (level === "cluster" || !domain) return nodes > 1 ? "across the cluster" : "–";
  return level === "node" ? domain : domainName(level, domain);
}

/** Write a gang's age; seconds only in its first minutes, so that rows are not written each second. */
function age(row, now) {
  const seconds = Math.max(0, (row.since ? now - Date.parse(row.since) : 0) / 1000);
  if (seconds < 60) return `${Math.floor(seconds / 5) * 5} s`;
  return span(seconds < 600 ? Math.floor(seconds / 10) * 10 : Math.floor(seconds / 60) * 60);
}
