// The pages of a queue, a team (namespace) and a user: what it has now, its curves, its gangs; and the lists of them.

import { Asking, ask, unanswered } from "./asking.js";
import { Curves } from "./curves.js";
import { el, replace, say, showPage } from "./dom.js";
import { count, many, tenths } from "./format.js";
import { panel } from "./gangparts.js";
import { PlacedTable, WaitingTable } from "./gangs.js";
import { named, PastTable } from "./past.js";
import { quotas } from "./queues.js";
import { pageLink } from "./route.js";
import { Spans } from "./spans.js";
import { Table } from "./table.js";

/** Kinds of payers: their path, what the API calls them, what their curves tell apart, and whose a gang is. */
export const KINDS = {
  queues: { noun: "Queue", field: "queue", by: "namespace", below: "teams", of: (row) => row.queue },
  teams: { noun: "Team", field: "namespace", by: "queue", below: "queues", of: (row) => row.namespace },
  users: { noun: "User", field: "user", by: "namespace", below: "teams", of: null },
};

const WEEK_MS = 7 * 86_400_000;
/** Of so many Queues the curves are asked for, to show those of the Queues below one. */
const MOST_BELOW = 100;

/** Return the names of a Queue and of all below it, none where there are none. */
function queuesBelow({ queues }, name) {
  const found = new Set([name]);
  for (const above of found) {
    for (const queue of queues) if (queue.parent === above) found.add(queue.name);
  }
  return found.size > 1 ? found : new Set();
}

/** The page of one payer of a kind. */
export class PayerPage {
  constructor(host, { model, modes, filter }, path) {
    Object.assign(this, { host, model, filter, path, kind: KINDS[path], name: "" });
    this.spans = new Spans(() => this.asking.start());
    this.curves = new Curves((key) => pageLink(this.kind.below, key));
    this.past = new PastTable("Gangs that ended", (words) => this.fail(words));
    this.trouble = el("div");
    this.quota = el("div");
    this.now = el("div", { class: "stack" });
    this.count = el("p", { class: "lead" });
    const hooks = { modes, point: () => undefined };
    this.waiting = new WaitingTable(this.now, el("p"), hooks);
    this.placed = new PlacedTable(this.now, el("p"), hooks);
    this.asking = new Asking({
      ask: () => this.ask(),
      take: (told) => this.take(told),
      fail: (words) => this.fail(words),
    });
  }

  get title() {
    return this.name && `${this.kind.noun} ${this.name}`;
  }

  open([name]) {
    this.spans.follow();
    if (this.name === name) return;
    this.name = name;
    const { noun } = this.kind;
    replace(this.trouble);
    showPage(
      this.host,
      { back: [pageLink(this.path), `All ${this.path}`], title: `${noun} ${name}`, beside: this.spans.frame },
      this.count,
      this.trouble,
      el(
        "div",
        { class: "stack" },
        this.path === "queues" ? panel("Quota now", this.quota) : null,
        this.curves.frame,
        this.kind.of ? panel("Gangs now", this.now) : null,
        panel("Gangs that ended", this.past.frame),
      ),
    );
    this.below = "";
    this.asking.start();
    this.update();
  }

  close() {
    this.name = "";
    this.asking.stop();
    replace(this.host);
  }

  /** Show how it stands now. */
  update() {
    if (!this.name || !this.kind.of) return;
    const { model, filter } = this;
    const mine = {
      on: filter.on,
      stamp: `${this.name} ${filter.stamp}`,
      gang: (row) => this.kind.of(row) === this.name && filter.gang(row),
    };
    this.waiting.update(model, mine);
    this.placed.update(model, mine);
    const rows = [...model.gangs.values()].filter((row) => this.kind.of(row) === this.name);
    const held = rows.reduce((sum, row) => sum + row.gpusHeld, 0);
    const waits = rows.filter((row) => row.phase === "Pending").length;
    say(this.count, `${many(rows.length - waits, "gang")} with ${many(held, "GPU")}, ${count(waits)} waiting.`);
    if (this.path !== "queues") return;
    replace(this.quota, quotas(model, this.name));
    const below = [...queuesBelow(model, this.name)].join("\n");
    if (below !== this.below) this.asking.start();
    this.below = below;
  }

  async ask() {
    const asked = { [this.kind.field]: this.name, since: this.spans.since() };
    const below = this.path === "queues" ? queuesBelow(this.model, this.name) : new Set();
    const wanted = below.size ? { by: "queue", most: MOST_BELOW, since: asked.since } : { ...asked, by: this.kind.by };
    const [curves, gangs] = await Promise.all([ask("api/v1/curves", wanted), this.past.ask(asked)]);
    this.curves.link = (key) => pageLink(below.size ? "queues" : this.kind.below, key);
    const mine = curves.curves.filter((curve) => below.has(curve.key));
    return { curves: below.size ? { ...curves, curves: mine, others: null } : curves, gangs, asked };
  }

  take({ curves, gangs, asked }) {
    replace(this.trouble);
    this.curves.show(curves, { whole: false });
    this.past.show(gangs, { ...asked, since: this.spans.since() });
  }

  fail(words) {
    replace(this.trouble, unanswered(words));
  }
}

/** The list of all payers of a kind: what each has now, and what it used in a week. */
export class PayerList {
  constructor(host, { model, filter }, path) {
    Object.assign(this, { host, model, filter, path, kind: KINDS[path], used: new Map(), whole: 0, stamp: "" });
    const number = (id, title, write = count) => ({
      id,
      title,
      kind: "number",
      sort: (row) => row[id],
      cell: (row) => write(row[id]),
    });
    const live = [number("running", "Started gangs"), number("held", "GPUs held"), number("waiting", "Waiting gangs")];
    this.table = new Table({
      name: path,
      label: this.title,
      key: (row) => row.name,
      stamp: (row) => JSON.stringify(row),
      columns: [
        {
          id: "name",
          title: this.kind.noun,
          head: true,
          sort: (row) => row.name,
          cell: (row) => named(path, row.name),
        },
        ...(this.kind.of ? live : []),
        number("hours", "GPU-hours in 7 days", tenths),
        number("lost", "of these lost", tenths),
        number("share", "Share in 7 days", (share) => `${tenths(100 * share)} %`),
      ],
    });
    this.trouble = el("div");
    this.asking = new Asking({
      ask: () => this.ask(),
      take: (told) => this.take(told),
      fail: (words) => this.fail(words),
    });
  }

  get title() {
    return `${this.kind.noun}s`;
  }

  open() {
    const title = this.path === "teams" ? "Teams, by namespace" : this.title;
    replace(
      this.host,
      el("h1", { tabindex: "-1" }, title),
      this.trouble,
      el("section", { class: "panel whole", "aria-label": this.title }, this.table.frame),
    );
    this.host.querySelector("h1").focus();
    this.stamp = "";
    this.update();
    this.asking.start();
  }

  close() {
    this.asking.stop();
    replace(this.host);
  }

  update() {
    const stamp = `${this.model.turns} ${this.filter.stamp} ${this.model.queues.length}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    const rows = new Map();
    const row = (name) => {
      if (!rows.has(name))
        rows.set(name, { name, running: 0, held: 0, waiting: 0, hours: 0, lost: 0, share: 0, ...this.used.get(name) });
      return rows.get(name);
    };
    if (this.path === "queues") for (const queue of this.model.queues) row(queue.name);
    for (const name of this.used.keys()) row(name);
    if (this.kind.of) {
      for (const gang of this.model.gangs.values()) {
        const name = this.kind.of(gang);
        if (!name) continue;
        const mine = row(name);
        mine.held += gang.gpusHeld;
        if (gang.phase === "Pending") mine.waiting += 1;
        else if (gang.phase === "Running" || gang.phase === "Scheduling") mine.running += 1;
      }
    }
    const kept = [...rows.values()].filter((each) => each.name && this.filter.matches(each.name));
    kept.sort((a, b) => b.hours - a.hours || b.held - a.held || (a.name < b.name ? -1 : 1));
    const empty = this.filter.on ? `None of the ${this.path} matches the filter.` : `There are no ${this.path} yet.`;
    this.table.show(kept, { now: this.model.now(), empty });
  }

  ask() {
    const since = new Date(this.model.now() - WEEK_MS).toISOString();
    return ask("api/v1/report", { by: this.kind.field, per: "month", since });
  }

  /** Take in a report: of a week in two months each has two rows. */
  take({ rows, capacity }) {
    replace(this.trouble);
    const whole = Object.values(capacity).reduce((sum, hours) => sum + hours, 0);
    this.used = new Map();
    for (const { key, used, reserved, lost } of rows) {
      const { hours, lost: before, share } = this.used.get(key) ?? { hours: 0, lost: 0, share: 0 };
      const part = whole ? (used + reserved) / whole : 0;
      this.used.set(key, { hours: hours + used, lost: before + lost, share: share + part });
    }
    this.stamp = "";
    this.update();
  }

  fail(words) {
    replace(this.trouble, unanswered(words));
  }
}
