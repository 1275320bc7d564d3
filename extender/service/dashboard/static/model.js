// What the page knows of the cluster: the board that the stream begins with, and the changes that follow.

import { domainName, naturalKey, within } from "./format.js";

const MOST_EVENTS = 2000;
const PLACED = ["Scheduling", "Running", "Failed", "Finished"];

/**
 * The cluster as told last. `structure` counts how often nodes came, went or moved, `turns` how often gangs did; `seq`
 * is that of the stream.
 */
export class Model {
  constructor() {
    this.loaded = false;
    this.seq = -1;
    this.structure = 0;
    this.turns = 0;
    this.lists = {};
    this.skew = 0;
    this.clear();
  }

  clear() {
    this.status = null;
    this.levels = [];
    this.products = [];
    this.nodes = new Map();
    this.gangs = new Map();
    this.order = [];
    this.queues = [];
    this.events = [];
  }

  /** Take in a whole board. */
  load(board) {
    this.clear();
    this.loaded = true;
    this.levels = board.levels;
    this.products = board.products;
    const { names, domains, products, gpus, schedulable, cells } = board.nodes;
    names.forEach((name, index) => {
      const held = cells[index];
      this.nodes.set(name, {
        name,
        domains: domains.map((column, level) => (column[index] < 0 ? "" : board.domains[level][column[index]])),
        product: products[index] < 0 ? "" : board.products[products[index]],
        gpus: gpus[index],
        schedulable: Boolean(schedulable[index]),
        cells: held.map((cell) => (cell === 0 ? "" : board.holders[Math.abs(cell) - 1])),
        reserved: held.map((cell) => cell < 0),
        free: share(held, 0),
      });
    });
    for (const row of board.gangs) this.gangs.set(gangKey(row), row);
    this.order = board.gangs.filter((row) => row.position !== null).map(gangKey);
    this.queues = board.queues;
    this.events = board.events.slice();
    this.structure += 1;
    this.turned();
    this.take(board);
  }

  /** Take in what has changed since. */
  change(change) {
    const { gangs, nodes } = change;
    if (gangs) {
      for (const name of gangs.gone ?? []) this.gangs.delete(name);
      for (const row of gangs.put ?? []) this.gangs.set(gangKey(row), row);
      if (gangs.order) this.order = gangs.order;
      if (gangs.gone?.length || gangs.put?.length || gangs.order) this.turned();
    }
    if (nodes) {
      for (const name of nodes.gone ?? []) this.structure += this.nodes.delete(name) ? 1 : 0;
      for (const row of nodes.put ?? []) this.putNode(row);
    }
    if (change.queues) this.queues = change.queues;
    if (change.events) {
      const last = this.events.at(-1)?.seq ?? -1;
      this.events.push(...change.events.filter((event) => event.seq > last));
      this.events.splice(0, Math.max(0, this.events.length - MOST_EVENTS));
    }
    this.take(change);
  }

  putNode(row) {
    const before = this.nodes.get(row.name);
    const moved = !before || before.gpus !== row.gpus || before.domains.join("\n") !== row.domains.join("\n");
    if (moved) this.structure += 1;
    if (row.product && !this.products.includes(row.product)) this.products = [...this.products, row.product];
    this.nodes.set(row.name, {
      ...row,
      schedulable: Boolean(row.schedulable),
      reserved: row.reserved.map(Boolean),
      free: share(row.cells, ""),
    });
  }

  take({ seq, status }) {
    this.seq = seq;
    if (!status) return;
    this.status = status;
    this.skew = Date.parse(status.time) - Date.now();
  }

  /** Note that gangs changed: what was listed of them is listed again when it is asked for. */
  turned() {
    this.turns += 1;
    this.lists = {};
  }

  /** Return the service's time, in milliseconds since the epoch. */
  now() {
    return Date.now() + this.skew;
  }

  /** Return the gangs that wait: in the order of the queue, then those that have no place in it yet. */
  waiting() {
    this.lists.waiting ??= this.listWaiting();
    return this.lists.waiting;
  }

  listWaiting() {
    const judged = new Set(this.order);
    const others = [...this.gangs.values()].filter((row) => row.phase === "Pending" && !judged.has(gangKey(row)));
    return [...this.order.map((name) => this.gangs.get(name)).filter(Boolean), ...others.sort(byAge)];
  }

  /** Return the gangs that do not wait: starting, running, failed, finished; each from the oldest on. */
  placed() {
    this.lists.placed ??= this.listPlaced();
    return this.lists.placed;
  }

  listPlaced() {
    const waits = new Set(this.order);
    const rank = (row) => PLACED.indexOf(row.phase);
    return [...this.gangs.values()]
      .filter((row) => row.phase !== "Pending" && !waits.has(gangKey(row)))
      .sort((a, b) => rank(a) - rank(b) || byAge(a, b));
  }

  /** Return the nodes as a tree of domains: outermost level first, those without a domain directly in what is above. */
  tree() {
    return domain(["cluster", "", ""], byName([...this.nodes.values()]), this.levels, 0);
  }
}

/** Return which share of a node's cells is free; of one without GPUs nothing is. */
const share = (cells, free) => (cells.length ? cells.filter((cell) => cell === free).length / cells.length : 0);

/** The phases in which a gang has a colour: when there is something of it in the picture. */
export const COLOURED = ["Scheduling", "Running"];

/** Return what a gang is called: namespace/name. */
export const gangKey = (row) => `${row.namespace}/${row.name}`;

/** Order gangs by age; moments as they are told compare as text. */
function byAge(a, b) {
  return compare(a.since ?? "", b.since ?? "") || compare(gangKey(a), gangKey(b));
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** Return what has names in the order of people. */
function byName(items) {
  const keyed = items.map((item) => [naturalKey(item.name), item]);
  return keyed.sort((a, b) => compare(a[0], b[0])).map(([, item]) => item);
}

function domain([level, name, title], nodes, levels, depth) {
  const direct = [];
  const groups = new Map();
  for (const node of nodes) {
    let at = depth;
    while (at < levels.length && !node.domains[at]) at += 1;
    if (at === levels.length) direct.push(node);
    else {
      const key = `${at}\n${node.domains[at]}`;
      if (!groups.has(key)) groups.set(key, { at, name: node.domains[at], nodes: [] });
      groups.get(key).nodes.push(node);
    }
  }
  const domains = byName([...groups.values()])
    .sort((a, b) => a.at - b.at)
    .map((group) => {
      const called = domainName(levels[group.at], within(group.name, name));
      return domain([levels[group.at], group.name, called], group.nodes, levels, group.at + 1);
    });
  return { level, name, title, nodes: direct, domains };
}

/** Return the nodes of a domain, those of its inner domains included. */
export function nodesOf(tree) {
  return [...tree.nodes, ...tree.domains.flatMap(nodesOf)];
}

/** Count nodes, GPUs and gangs over nodes. */
export function tally(nodes) {
  const sum = { nodes: nodes.length, schedulable: 0, gpus: 0, used: 0, reserved: 0, gangs: new Set() };
  for (const node of nodes) {
    sum.schedulable += node.schedulable ? 1 : 0;
    sum.gpus += node.gpus;
    for (const { holder, reserved, length } of runs(node)) {
      if (!holder) continue;
      sum.gangs.add(holder);
      sum[reserved ? "reserved" : "used"] += length;
    }
  }
  return sum;
}

/** Return a node's GPUs as runs of neighbours that the same has: mostly one, where counting each would be eight. */
export function runs(node) {
  const found = [];
  let last = null;
  for (let index = 0; index < node.gpus; index += 1) {
    const holder = node.cells[index] ?? "";
    const reserved = node.reserved[index] ?? false;
    if (last && last.holder === holder && last.reserved === reserved) last.length += 1;
    else {
      last = { holder, reserved, length: 1 };
      found.push(last);
    }
  }
  return found;
}
