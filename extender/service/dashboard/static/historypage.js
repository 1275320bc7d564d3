// The past of the cluster: its curves, gangs that ended, found by what is known of them; and the page of one of them.

import { Asking, ask, unanswered } from "./asking.js";
import { Curves, lanes } from "./curves.js";
import { el, replace, showPage } from "./dom.js";
import { clock, count, span, tenths } from "./format.js";
import { panel } from "./gangparts.js";
import { chapters, named, OUTCOMES, outcome, PastTable } from "./past.js";
import { gangLink, pageLink, see, seen } from "./route.js";
import { Spans } from "./spans.js";
import { Table } from "./table.js";

const TYPED_MS = 300;
const FIELDS = [
  ["prefix", "Name begins with"],
  ["namespace", "Namespace"],
  ["queue", "Queue"],
  ["user", "User"],
  ["node", "Node"],
];

/** The page of the past. */
export class HistoryPage {
  constructor(host) {
    this.host = host;
    this.title = "History";
    this.shown = false;
    this.spans = new Spans(() => this.asking.start());
    this.curves = new Curves((key) => pageLink("queues", key));
    this.past = new PastTable("Gangs that ended", (words) => this.fail(words));
    this.trouble = el("div");
    this.inputs = new Map(
      FIELDS.map(([name]) => [name, el("input", { id: `past-${name}`, autocomplete: "off", spellcheck: "false" })]),
    );
    this.outcome = el(
      "select",
      { id: "past-outcome" },
      OUTCOMES.map((each) => el("option", { value: each }, each || "all that ended")),
    );
    this.inputs.set("outcome", this.outcome);
    for (const [name, input] of this.inputs)
      input.addEventListener("input", () => this.typed(name, input.value.trim()));
    this.timer = 0;
    this.asking = new Asking({
      ask: () => this.ask(),
      take: (told) => this.take(told),
      fail: (words) => this.fail(words),
    });
  }

  typed(name, value) {
    see(name, value);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.asking.start(), TYPED_MS);
  }

  open() {
    this.spans.follow();
    for (const [name, input] of this.inputs) input.value = seen(name);
    if (!this.shown) this.build();
    this.shown = true;
    this.asking.start();
  }

  build() {
    const fields = [...FIELDS, ["outcome", "Outcome"]].map(([name, title]) =>
      el("div", {}, el("label", { for: `past-${name}` }, title), this.inputs.get(name)),
    );
    const form = el("form", { class: "past-form", role: "search", "aria-label": "Gangs that ended" }, fields);
    form.addEventListener("submit", (event) => event.preventDefault());
    showPage(
      this.host,
      { title: "History", beside: this.spans.frame },
      this.trouble,
      el("div", { class: "stack" }, this.curves.frame, panel("Gangs that ended", form, this.past.frame)),
    );
  }

  close() {
    this.shown = false;
    this.asking.stop();
    clearTimeout(this.timer);
    replace(this.host);
  }

  update() {}

  async ask() {
    const fields = Object.fromEntries([...this.inputs.keys()].map((name) => [name, seen(name)]));
    const since = this.spans.since();
    const of = { namespace: fields.namespace, queue: fields.queue, user: fields.user };
    const by = fields.queue ? "namespace" : "queue";
    const asked = { ...fields, since: fields.outcome === "Running" ? "" : since };
    const [curves, gangs] = await Promise.all([ask("api/v1/curves", { by, since, ...of }), this.past.ask(asked)]);
    return { curves, gangs, asked, whole: !Object.values(of).some(Boolean), by };
  }

  take({ curves, gangs, asked, whole, by }) {
    replace(this.trouble);
    this.curves.link = (key) => pageLink(by === "queue" ? "queues" : "teams", key);
    this.curves.show(curves, { whole });
    this.past.show(gangs, asked);
  }

  fail(words) {
    replace(this.trouble, unanswered(words));
  }
}

/** The page of the past of one gang: each time that there was one of that name, when it waited, ran, was evicted. */
export class PastGangPage {
  constructor(host, { model }) {
    Object.assign(this, { host, model, name: "" });
    this.body = el("div", { class: "stack" });
    this.link = el("p");
    this.asking = new Asking({
      ask: () =>
        ask("api/v1/history", { namespace: this.names[0], name: this.names[1], limit: 20 }).then((ended) =>
          this.withOpen(ended),
        ),
      take: (told) => this.show(told),
      fail: (words) => replace(this.body, unanswered(words)),
    });
  }

  get title() {
    return this.name && `${this.name}, past`;
  }

  open(names) {
    const name = names.join("/");
    if (this.name === name) return;
    Object.assign(this, { name, names });
    replace(this.body, el("p", { class: "dim" }, "Asking …"));
    showPage(this.host, { back: [pageLink("history"), "History"], title: name }, this.link, this.body);
    this.update();
    this.asking.start();
  }

  close() {
    this.name = "";
    this.asking.stop();
    replace(this.host);
  }

  /** Say that it is there now, if so. */
  update() {
    const there = this.model.gangs.has(this.name);
    if (there === this.link.hasChildNodes()) return;
    replace(this.link, there ? el("a", { href: gangLink(this.name) }, "It is there now: how it stands") : null);
  }

  async withOpen(ended) {
    const [namespace, name] = this.names;
    const open = await ask("api/v1/history", { namespace, name, outcome: "Running", limit: 20 });
    return { gangs: [...open.gangs, ...ended.gangs], asOf: ended.asOf };
  }

  show({ gangs, asOf }) {
    const now = Date.parse(asOf);
    replace(
      this.body,
      gangs.length
        ? gangs.map((row) => record(row, now))
        : panel("Nothing", el("p", { class: "empty" }, "The history has no gang of that name.")),
    );
  }
}

/** Return a panel about one gang of the history. */
function record(row, now) {
  const parts = chapters(row, now);
  const until = row.ended ? Date.parse(row.ended) : now;
  const facts = [
    ["Queue", named("queues", row.queue)],
    ["team", named("teams", row.namespace)],
    ["user", named("users", row.user)],
    ["made by", row.owner || "–"],
    ["priority", count(row.priority)],
    ["members", count(row.members)],
    ["GPUs", count(row.gpus)],
    ["GPU-hours used", tenths(row.gpuSeconds.used / 3600)],
    ["reserved", tenths(row.gpuSeconds.reserved / 3600)],
    ["lost to evictions", tenths(row.gpuSeconds.lost / 3600)],
    ["evicted", row.evictions ? `${count(row.evictions)} ×` : "never"],
  ];
  const table = new Table({
    name: `runs-${row.uid}`,
    label: "What became of it",
    key: (part) => part.from,
    columns: [
      { id: "what", title: "What", head: true, cell: (part) => part.kind },
      { id: "from", title: "From", kind: "when", cell: (part) => clock(part.from, now) },
      {
        id: "until",
        title: "Until",
        kind: "when",
        cell: (part) => (part.until === now && !row.ended ? "now" : clock(part.until, now)),
      },
      { id: "for", title: "For", kind: "number", cell: (part) => span((part.until - part.from) / 1000) },
      { id: "where", title: "Where", cell: (part) => part.where || "–" },
      { id: "why", title: "Why", kind: "words", cell: (part) => part.why || "–" },
    ],
  });
  table.show(parts);
  const bars = [{ name: row.outcome, href: null, parts }];
  return el(
    "section",
    { class: "panel record", "aria-label": `Created ${row.created}` },
    el("div", { class: "panel-head" }, el("h2", {}, `Created ${clock(row.created, now)}`), outcome(row)),
    parts.length ? lanes(bars, Date.parse(row.created), Math.max(until, Date.parse(row.created) + 1000)) : null,
    el(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    ),
    table.frame,
  );
}
