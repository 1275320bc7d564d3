// The picture in words: a table of domains and, where there are not too many, of nodes.

import { el, replace, tableHead } from "./dom.js";
import { count, many } from "./format.js";
import { nodesOf, tally } from "./model.js";
import { gangLink, pageLink } from "./route.js";

const MOST_ROWS = 400;
const MOST_NAMES = 4;

/** Show the model's domains in a table while `details` is open. */
export class DomainTable {
  constructor(details, table) {
    this.details = details;
    this.table = table;
    this.stamp = null;
  }

  update(model, filter) {
    if (!this.details.open) return;
    const stamp = `${model.seq} ${filter.words.join(" ")}`;
    if (this.stamp === stamp) return;
    this.stamp = stamp;
    const rows = [];
    gather(model.tree(), 0, filter, rows);
    const titles = [
      ["Domain or node"],
      ["Nodes", "number"],
      ["GPUs", "number"],
      ["Used", "number"],
      ["Reserved", "number"],
      ["Free", "number"],
      ["Gangs"],
    ];
    const beyond = rows.length - MOST_ROWS;
    replace(
      this.table,
      el(
        "caption",
        {},
        beyond > 0
          ? `The first ${count(MOST_ROWS)} of ${count(rows.length)} domains and nodes; the filter finds the others.`
          : `${many(rows.length, "domain")} and nodes.`,
      ),
      tableHead(titles),
      el("tbody", {}, rows.slice(0, MOST_ROWS).map(row)),
    );
  }
}

function gather(tree, depth, filter, rows) {
  const nodes = nodesOf(tree).filter((node) => filter.lit(node, ""));
  if (!nodes.length) return;
  rows.push({ title: tree.title || "cluster", depth, sum: tally(nodes), closed: false });
  for (const domain of tree.domains) gather(domain, depth + 1, filter, rows);
  for (const node of tree.nodes) {
    if (filter.lit(node, ""))
      rows.push({ title: node.name, node, depth: depth + 1, sum: tally([node]), closed: !node.schedulable });
  }
}

function row({ title, depth, sum, closed, node }) {
  const gangs = [...sum.gangs];
  const names = gangs
    .slice(0, MOST_NAMES)
    .flatMap((name, at) => [at ? ", " : "", el("a", { href: gangLink(name) }, name)]);
  if (gangs.length > MOST_NAMES) names.push(` and ${count(gangs.length - MOST_NAMES)} more`);
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row" },
      "\u2003".repeat(depth),
      node ? el("a", { href: pageLink("nodes", title) }, title) : title,
      closed ? ", unschedulable" : "",
    ),
    ...[sum.nodes, sum.gpus, sum.used, sum.reserved, sum.gpus - sum.used - sum.reserved].map((value) =>
      el("td", { class: "number" }, count(value)),
    ),
    el("td", {}, names),
  );
}
