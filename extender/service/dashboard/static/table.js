// A table of any number of rows: it sorts by its heads, says so in the address, and makes the rows that are seen.

import { el, keyed, replace } from "./dom.js";
import { naturalKey } from "./format.js";
import { see, seen } from "./route.js";

/** So many rows are made at once; longer tables are made in chunks, those within sight and a margin in pixels. */
const FEW = 120;
const CHUNK = 30;
const MARGIN = 600;
const FIRST_GUESS = 30;

/**
 * A table in a frame that scrolls; append `frame` to the page, then call `show(rows)` whenever there are others.
 *
 * A column is {id, title, cell, sort, kind, hint, head}: `cell(row, now)` returns what is in it, text or elements;
 * `sort(row)` what rows are ordered by (text in the order of people, numbers, null last), without which the column
 * does not sort; `kind` is its class ("number" for right-aligned); `hint` the tooltip of its title; `head` marks the
 * one that names the row. `key(row)` tells rows apart; `stamp(row, now)` is another value when a row has to be written
 * again; `attributes(row)` are those of its element. `name` is what its order is called in the address.
 */
export class Table {
  constructor({ name, label, columns, key, stamp = (row) => row, attributes = () => ({}) }) {
    Object.assign(this, { name, columns, key, stamp, attributes });
    this.rows = [];
    this.given = null;
    this.order = null;
    this.heights = new Map();
    this.now = 0;
    this.empty = "";
    this.body = el("tbody", { role: "rowgroup" });
    this.above = gap();
    this.below = gap();
    this.heads = new Map(columns.map((column) => [column.id, this.head(column)]));
    const heads = el("tr", { role: "row" }, [...this.heads.values()]);
    this.table = el(
      "table",
      { role: "table", "aria-label": label, class: "cards" },
      el("thead", { role: "rowgroup" }, heads),
      this.body,
    );
    this.frame = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, this.table);
    this.frame.addEventListener("scroll", () => this.scrolled(), { passive: true });
  }

  head({ id, title, kind, hint, sort }) {
    const words = sort
      ? el("button", { type: "button", class: "sort", title: hint, onclick: () => this.turn(id) }, title)
      : el("span", { title: hint }, title);
    return el("th", { scope: "col", role: "columnheader", class: kind }, words);
  }

  /** Order by a column: its own way first (numbers from the largest on), then the other way, then as given. */
  turn(id) {
    const { kind } = this.columns.find((column) => column.id === id);
    const ways = kind === "number" ? [`-${id}`, id] : [id, `-${id}`];
    see(`${this.name}.sort`, ways[ways.indexOf(this.asked()) + 1] ?? "");
    this.frame.scrollTop = 0;
    this.show(this.given ?? [], { now: this.now, empty: this.empty });
  }

  /** Return the order that the address asks for, "" for the one that is given. */
  asked() {
    const asked = seen(`${this.name}.sort`);
    const column = this.columns.find((each) => each.id === asked.replace(/^-/, ""));
    return column?.sort ? asked : "";
  }

  /** Show rows, in this order unless the reader chose another; `empty` is said where there are none. */
  show(rows, { now = Date.now(), empty = "Nothing to show." } = {}) {
    const asked = this.asked();
    if (rows !== this.given || asked !== this.order) this.rows = this.sorted(rows, asked);
    Object.assign(this, { given: rows, order: asked, now, empty });
    for (const [id, head] of this.heads) {
      const way = { [id]: "ascending", [`-${id}`]: "descending" }[asked];
      if (way) head.setAttribute("aria-sort", way);
      else head.removeAttribute("aria-sort");
    }
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.fill();
  }

  sorted(rows, asked) {
    const column = this.columns.find((each) => each.id === asked.replace(/^-/, ""));
    if (!column) return rows;
    const way = asked.startsWith("-") ? -1 : 1;
    const keyed = rows.map((row, index) => ({ row, index, key: sortable(column.sort(row)) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.index - b.index;
      return (a.key < b.key ? -way : a.key > b.key ? way : 0) || a.index - b.index;
    });
    return keyed.map(({ row }) => row);
  }

  scrolled() {
    if (this.due || this.rows.length <= FEW) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.fill();
    });
  }

  /** Make the rows that are seen, and leave room for the others. */
  fill() {
    const { rows } = this;
    const { first, last, above, below } = this.sight();
    const items = rows.length ? rows.slice(first, last) : [null];
    keyed(this.body, items, {
      key: (row) => (row ? this.key(row) : ""),
      stamp: (row) => (row ? this.stamp(row, this.now) : this.empty),
      make: (row) => el("tr", { role: "row", ...(row ? this.attributes(row) : {}) }),
      refill: (element, row) => replace(element, row ? this.cells(row) : this.nothing()),
    });
    leave(this.above, above, () => this.body.before(this.above));
    leave(this.below, below, () => this.body.after(this.below));
    if (rows.length <= FEW) return;
    items.forEach((row, index) => {
      this.body.keyedChildren.get(this.key(row))?.element.setAttribute("aria-rowindex", String(first + index + 2));
    });
    this.measure(first, last);
  }

  /** Return which rows are within sight, and how high what is above and below them is. */
  sight() {
    const { rows, frame } = this;
    if (rows.length <= FEW) return { first: 0, last: rows.length, above: 0, below: 0 };
    const top = frame.scrollTop - MARGIN;
    const bottom = frame.scrollTop + Math.max(frame.clientHeight, MARGIN) + MARGIN;
    const known = [...this.heights.values()];
    const guess = known.length ? known.reduce((sum, each) => sum + each, 0) / known.length : CHUNK * FIRST_GUESS;
    const seen = { first: -1, last: rows.length, above: 0, below: 0 };
    let y = 0;
    for (let chunk = 0; chunk * CHUNK < rows.length; chunk += 1) {
      const share = Math.min(CHUNK, rows.length - chunk * CHUNK) / CHUNK;
      const height = (this.heights.get(chunk) ?? guess) * share;
      const last = (chunk + 1) * CHUNK >= rows.length;
      if (seen.first < 0 && (y + height > top || last)) Object.assign(seen, { first: chunk * CHUNK, above: y });
      if (seen.first >= 0 && y <= bottom)
        Object.assign(seen, { last: Math.min((chunk + 1) * CHUNK, rows.length), below: 0 });
      else if (seen.first >= 0) seen.below += height;
      y += height;
    }
    return seen;
  }

  /** Note how high the chunks are that have been made. */
  measure(first, last) {
    const { rows } = this.body;
    for (let at = first; at + CHUNK < last; at += CHUNK) {
      const height = rows[at + CHUNK - first].offsetTop - rows[at - first].offsetTop;
      if (height > 0) this.heights.set(at / CHUNK, height);
    }
  }

  cells(row) {
    return this.columns.map(({ title, kind, head, cell }) => {
      const content = cell(row, this.now);
      return head
        ? el("th", { scope: "row", role: "rowheader", class: kind }, content)
        : el("td", { role: "cell", class: kind, "data-title": title }, content);
    });
  }

  nothing() {
    return el("td", { role: "cell", colspan: this.columns.length, class: "empty" }, this.empty);
  }
}

/** Return what a value is compared by: text with its numbers as numbers, null for nothing. */
function sortable(value) {
  if (value === null || value === undefined || value === "") return null;
  return typeof value === "string" ? naturalKey(value) : value;
}

const gap = () => el("tbody", { class: "gap", "aria-hidden": "true" }, el("tr", {}, el("td")));

/** Make room for rows that are not made. */
function leave(room, height, put) {
  if (!height) room.remove();
  else if (!room.isConnected) put();
  room.querySelector("td").style.height = `${height}px`;
}
