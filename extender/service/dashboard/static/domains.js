// The picture in words: a table of domains and nodes, as the tree has them.

import { el } from "./dom.js";
import { count } from "./format.js";
import { nodesOf, tally } from "./model.js";
import { gangLink, pageLink } from "./route.js";
import { Table } from "./table.js";

const MOST_NAMES = 4;

/** Show the model's domains in a table while `details` is open. */
export class DomainTable {
  constructor(details, host) {
    this.details = details;
    this.stamp = "";
    this.model = null;
    const number = (id, title, value) => ({ id, title, kind: "number", cell: (row) => count(value(this.sum(row))) });
    this.table = new Table({
      name: "domains",
      label: "Domains and nodes",
      key: (row) => row.key,
      stamp: () => this.stamp,
      columns: [
        { id: "domain", title: "Domain or node", head: true, cell: (row) => this.title(row) },
        number("nodes", "Nodes", (sum) => sum.nodes),
        number("gpus", "GPUs", (sum) => sum.gpus),
        number("used", "Used", (sum) => sum.used),
        number("reserved", "Reserved", (sum) => sum.reserved),
        number("free", "Free", (sum) => sum.gpus - sum.used - sum.reserved),
        { id: "gangs", title: "Gangs", cell: (row) => gangs(this.sum(row)) },
      ],
    });
    host.append(this.table.frame);
  }

  /** Show the tree that `tree()` returns, as of the filter's refresh, with what the model's nodes hold now. */
  update(model, filter, tree) {
    if (!this.details.open) return;
    const stamp = `${filter.seq} ${filter.stamp}`;
    if (this.stamp === stamp) return;
    Object.assign(this, { stamp, model });
    const rows = [];
    gather(tree(), 0, filter, rows);
    this.table.show(rows, { empty: "No domain and no node matches the filter." });
  }

  /** Count what a row's nodes hold, once for all of its cells. */
  sum(row) {
    row.sum ??= tally(row.nodes.map((node) => this.model.nodes.get(node.name) ?? node));
    return row.sum;
  }

  title(row) {
    const name = row.node ? el("a", { href: pageLink("nodes", row.title) }, row.title) : row.title;
    return ["\u2003".repeat(row.depth), name, row.node && !this.sum(row).schedulable ? ", unschedulable" : ""];
  }
}

function gather(tree, depth, filter, rows) {
  const nodes = nodesOf(tree).filter((node) => filter.lit(node, ""));
  if (!nodes.length) return;
  rows.push({ key: `${tree.level}:${tree.name}`, title: tree.title || "cluster", depth, nodes });
  for (const domain of tree.domains) gather(domain, depth + 1, filter, rows);
  for (const node of tree.nodes) {
    if (filter.lit(node, "")) rows.push({ key: node.name, title: node.name, node, depth: depth + 1, nodes: [node] });
  }
}

function gangs(sum) {
  const all = [...sum.gangs];
  const names = all
    .slice(0, MOST_NAMES)
    .flatMap((name, at) => [at ? ", " : "", el("a", { href: gangLink(name) }, name)]);
  if (all.length > MOST_NAMES) names.push(` and ${count(all.length - MOST_NAMES)} more`);
  return names;
}
