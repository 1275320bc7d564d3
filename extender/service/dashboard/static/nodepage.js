// The page of a node: who holds its GPUs, and which gangs were on it; and the list of all nodes.

import { Asking, unanswered } from "./asking.js";
import { swatch } from "./colours.js";
import { lanes } from "./curves.js";
import { bar, el, replace } from "./dom.js";
import { count, domainName, many } from "./format.js";
import { panel } from "./gangparts.js";
import { tally } from "./model.js";
import { chapters, named, PastTable, pastLink } from "./past.js";
import { gangLink, pageLink } from "./route.js";
import { Spans } from "./spans.js";
import { Table } from "./table.js";

const MOST_LANES = 40;

/** The page of one node. */
export class NodePage {
  constructor(host, { model, modes }) {
    Object.assign(this, { host, model, modes, name: "", stamp: "" });
    this.spans = new Spans(() => this.asking.start());
    this.past = new PastTable("Gangs that were here", (words) => this.fail(words));
    this.trouble = el("div");
    this.facts = el("div");
    this.lanes = el("div");
    this.asking = new Asking({
      ask: () => this.ask(),
      take: (told) => this.take(told),
      fail: (words) => this.fail(words),
    });
  }

  get title() {
    return this.name && `Node ${this.name}`;
  }

  open([name]) {
    this.spans.follow();
    if (this.name === name) return;
    Object.assign(this, { name, stamp: "" });
    replace(this.trouble);
    replace(this.lanes, el("p", { class: "dim" }, "Asking …"));
    replace(
      this.host,
      el("nav", { class: "crumbs", "aria-label": "Back" }, el("a", { href: pageLink("nodes") }, "← All nodes")),
      el("div", { class: "gang-head" }, el("h1", { tabindex: "-1" }, `Node ${name}`), this.spans.frame),
      this.trouble,
      el(
        "div",
        { class: "stack" },
        panel("Its GPUs now", this.facts),
        panel("Who was here when", this.lanes),
        panel("Gangs that were here", this.past.frame),
      ),
    );
    this.host.querySelector("h1").focus();
    this.update();
    this.asking.start();
  }

  close() {
    this.name = "";
    this.asking.stop();
    replace(this.host);
  }

  update() {
    const node = this.model.nodes.get(this.name);
    const stamp = JSON.stringify([node ?? null, this.modes.mode]);
    if (!this.name || stamp === this.stamp || !this.model.loaded) return;
    this.stamp = stamp;
    if (!node) {
      replace(this.facts, el("p", { class: "empty" }, "There is no such node now."));
      return;
    }
    const { used, reserved } = tally([node]);
    const where = node.domains
      .map((domain, level) => domain && domainName(this.model.levels[level], domain))
      .filter(Boolean);
    const facts = [
      ["GPUs", `${count(used)} of ${many(node.gpus, "GPU")} used${reserved ? `, ${count(reserved)} reserved` : ""}`],
      ["state", node.schedulable ? "schedulable" : "unschedulable"],
      ["product", node.product || "not known"],
      ["where", where.join(", ") || "in no domain"],
    ];
    const holders = node.cells.map((gang, index) =>
      el(
        "li",
        {},
        gang ? swatch(this.modes.gang(gang)) : el("i", { class: "swatch free" }),
        gang ? el("a", { href: gangLink(gang) }, gang) : "free",
        node.reserved[index] ? el("span", { class: "dim" }, "reserved") : null,
      ),
    );
    replace(
      this.facts,
      el(
        "dl",
        { class: "facts" },
        facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
      ),
      el("ol", { class: "node-gpus", "aria-label": "GPUs" }, holders),
    );
  }

  async ask() {
    const asked = { node: this.name, since: this.spans.since() };
    const [gangs, open] = await Promise.all([
      this.past.ask(asked),
      this.past.ask({ node: this.name, outcome: "Running" }),
    ]);
    return { gangs, open, asked };
  }

  take({ gangs, open, asked }) {
    replace(this.trouble);
    this.past.show(gangs, asked);
    const until = Date.parse(gangs.asOf);
    const all = [...open.gangs, ...gangs.gangs].filter((row) => row.runs.length);
    const rows = all.slice(0, MOST_LANES);
    const ran = rows.map((row) => chapters(row, until).filter((part) => part.kind === "ran"));
    const begin = this.spans.begin();
    const cut = all.length > rows.length;
    const from = cut ? Math.max(begin, Math.min(...ran.flat().map((part) => part.from))) : begin;
    const bars = rows.map((row, at) => ({
      name: `${row.namespace}/${row.name}`,
      href: pastLink(row),
      parts: ran[at].filter((part) => part.until > from),
    }));
    replace(
      this.lanes,
      cut ? el("p", { class: "count" }, `The latest ${count(rows.length)} gangs; the table has the others.`) : null,
      bars.length ? lanes(bars, from, until) : el("p", { class: "empty" }, "No gang was here in this time."),
    );
  }

  fail(words) {
    replace(this.trouble, unanswered(words));
    replace(this.lanes);
  }
}

/** The list of all nodes. */
export class NodeList {
  constructor(host, { model, filter }) {
    Object.assign(this, { host, model, filter, title: "Nodes", stamp: "" });
    const number = (id, title) => ({
      id,
      title,
      kind: "number",
      sort: (row) => row[id],
      cell: (row) => count(row[id]),
    });
    this.table = new Table({
      name: "nodes",
      label: "Nodes",
      key: (row) => row.name,
      stamp: (row) => JSON.stringify(row),
      columns: [
        { id: "name", title: "Node", head: true, sort: (row) => row.name, cell: (row) => named("nodes", row.name) },
        { id: "where", title: "Where", kind: "name", sort: (row) => row.where, cell: (row) => row.where || "–" },
        { id: "state", title: "State", sort: (row) => row.state, cell: (row) => row.state },
        number("gpus", "GPUs"),
        number("used", "Used"),
        number("reserved", "Reserved"),
        number("free", "Free"),
        {
          id: "bar",
          title: "In use",
          kind: "share",
          cell: (row) =>
            bar(
              [
                ["used", row.used],
                ["reserved", row.reserved],
              ],
              row.gpus,
            ),
        },
        { id: "gangs", title: "Gangs", kind: "words", cell: (row) => gangs(row.gangs) },
      ],
    });
  }

  open() {
    replace(
      this.host,
      el("h1", { tabindex: "-1" }, "Nodes"),
      el("section", { class: "panel", "aria-label": "Nodes" }, this.table.frame),
    );
    this.host.querySelector("h1").focus();
    this.stamp = "";
    this.update();
  }

  close() {
    replace(this.host);
  }

  update() {
    const stamp = `${this.model.seq} ${this.filter.stamp}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    const rows = [...this.model.nodes.values()]
      .filter((node) => this.filter.matches(node.name, ...node.domains, ...node.cells))
      .map((node) => {
        const { used, reserved, gangs: all } = tally([node]);
        const { name, gpus, schedulable } = node;
        const state = schedulable ? "schedulable" : "unschedulable";
        const where = node.domains.filter(Boolean).at(-1) ?? "";
        return { name, gpus, used, reserved, free: gpus - used - reserved, where, state, gangs: [...all] };
      });
    this.table.show(rows, {
      now: this.model.now(),
      empty: this.filter.on ? "No node matches the filter." : "There are no nodes.",
    });
  }
}

function gangs(names) {
  if (!names.length) return "–";
  return names.flatMap((name, index) => [index ? ", " : "", el("a", { href: gangLink(name) }, name)]);
}
