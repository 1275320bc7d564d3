// The page of a node: who holds its GPUs, and which gangs were on it; and the list of all nodes.

import { Asking, unanswered } from "./asking.js";
import { swatch } from "./colours.js";
import { Chart, lanes } from "./curves.js";
import { bar, el, replace, showPage } from "./dom.js";
import { count, domainName, many } from "./format.js";
import { panel } from "./gangparts.js";
import { tally } from "./model.js";
import { chapters, named, PastTable, pastLink, unfolded } from "./past.js";
import { gangLink, pageLink } from "./route.js";
import { Spans } from "./spans.js";
import { Table } from "./table.js";

const MOST_LANES = 40;
const MOST_STEPS = 168;
const HOUR_MS = 3_600_000;

/** Return when a gang of the history was on a node, and with how many of its GPUs. */
function staysOf(row, node, now) {
  const ran = chapters(row, now).filter((part) => part.kind === "ran");
  const parts = ran.flatMap((part) => {
    const nodes = unfolded(part.where);
    return nodes.has(node) ? [{ ...part, gpus: row.gpus / nodes.size }] : [];
  });
  return { row, parts };
}

/** The page of one node. */
export class NodePage {
  constructor(host, { model, modes }) {
    Object.assign(this, { host, model, modes, name: "", stamp: "" });
    this.spans = new Spans(() => this.asking.start());
    this.past = new PastTable("Gangs that were here", (words) => this.fail(words));
    this.trouble = el("div");
    this.facts = el("div");
    this.lanes = el("div");
    this.use = new Chart("GPUs in use");
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
    showPage(
      this.host,
      { back: [pageLink("nodes"), "All nodes"], title: `Node ${name}`, beside: this.spans.frame },
      this.trouble,
      el(
        "div",
        { class: "stack" },
        panel("Its GPUs now", this.facts),
        this.use.frame,
        panel("Who was here when", this.lanes),
        panel("Gangs that were here", this.past.frame),
      ),
    );
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
    const stays = [...open.gangs, ...gangs.gangs].map((row) => staysOf(row, this.name, until));
    const all = stays.filter(({ parts }) => parts.length);
    const earliest = (rows) => Math.min(...rows.flatMap(({ parts }) => parts.map((part) => part.from)));
    // Of many gangs the table has not all yet: what was before those that it has is not known.
    const last = gangs.next && gangs.gangs.length ? Date.parse(gangs.gangs.at(-1).ended) : 0;
    const begin = Math.max(this.spans.begin(), last);
    this.showUse(all, begin, until);
    const rows = all.slice(0, MOST_LANES);
    const cut = all.length > rows.length;
    const from = cut ? Math.max(begin, earliest(rows)) : begin;
    const bars = rows.map(({ row, parts }) => ({
      name: `${row.namespace}/${row.name}`,
      href: pastLink(row),
      parts: parts.filter((part) => part.until > from),
    }));
    replace(
      this.lanes,
      cut ? el("p", { class: "count" }, `The latest ${count(rows.length)} gangs; the table has the others.`) : null,
      bars.length ? lanes(bars, from, until) : el("p", { class: "empty" }, "No gang was here in this time."),
    );
  }

  /** Draw how many GPUs were used here, each gang's spread evenly over its nodes. */
  showUse(stays, begin, until) {
    const step = Math.max(HOUR_MS, (until - begin) / MOST_STEPS);
    const values = new Array(Math.max(1, Math.ceil((until - begin) / step))).fill(0);
    for (const { parts } of stays) {
      for (const { from, until: end, gpus } of parts) {
        values.forEach((_, at) => {
          const left = Math.max(from, begin + at * step);
          const right = Math.min(end, begin + (at + 1) * step, until);
          const whole = Math.min(step, until - begin - at * step);
          if (right > left) values[at] += (gpus * (right - left)) / whole;
        });
      }
    }
    const gpus = this.model.nodes.get(this.name)?.gpus ?? 0;
    const line = gpus ? { name: "GPUs of the node", values: values.map(() => gpus) } : null;
    const since = new Date(begin).toISOString();
    this.use.show({ since, step: step / 1000, series: [{ name: "used by gangs", values }], line, unit: "" });
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
      el("section", { class: "panel whole", "aria-label": "Nodes" }, this.table.frame),
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
