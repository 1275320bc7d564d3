// What the page of a gang consists of: its reason, its facts, and a panel for each thing that explains it.

import { el } from "./dom.js";
import { clock, count, domainName, expected, many, resourceName, withClocks } from "./format.js";
import { named } from "./past.js";
import { gangLink } from "./route.js";
import { Table } from "./table.js";
import { waterfalls } from "./waterfall.js";

const MOST_NODES = 8;

/** Return the phase of a gang, as a badge. */
export function phase(gang) {
  const kind = { Running: "good", Finished: "good", Failed: "bad" }[gang.phase] ?? "warn";
  return el("span", { class: `badge ${kind}` }, gang.phase);
}

/** Return what is said of a gang first, without its phase, which stands beside its name; null where that is all. */
export function lead({ headline, phase, reason }) {
  const rest = headline.startsWith(`${phase}, `) ? headline.slice(phase.length + 2) : headline;
  if (headline === phase || (reason && headline.includes(reason.message))) return null;
  return el("p", { class: "lead" }, rest);
}

/** Return why a gang waits, with those of its numbers that the words do not have; null for one that does not. */
export function callout(gang, now) {
  if (!gang.reason) return null;
  const words = new Set(gang.reason.message.match(/[\w.]+/g));
  const numbers = Object.entries(gang.reason.numbers ?? {}).filter(([, value]) => !words.has(String(value)));
  const start = expected(gang.expectedStart, now);
  return el(
    "div",
    { class: "callout" },
    el("p", {}, el("b", {}, gang.reason.code), ` ${withClocks(gang.reason.message, now)}`),
    numbers.length
      ? el(
          "dl",
          {},
          numbers.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))),
        )
      : null,
    start ? el("p", {}, `Expected to start ${start}.`) : null,
  );
}

/** Return what is known of a gang anyway. */
export function facts(gang, model) {
  const { queue } = gang;
  const row = model.gangs.get(`${gang.namespace}/${gang.name}`);
  const list = [
    ["minMember", count(gang.minMember)],
    ["declared by", gang.api],
  ];
  if (queue?.name) list.push(["Queue", named("queues", queue.name)]);
  list.push(["team", named("teams", gang.namespace)]);
  if (queue?.position) {
    const overall = `${count(queue.position)} of ${count(queue.of)}`;
    const place = queue.name
      ? `${count(queue.positionInQueue)} of ${count(queue.ofQueue)}, ${overall} over all Queues`
      : overall;
    list.push(["place in line", place]);
  }
  if (queue?.ahead?.length) list.push(["ahead of it", links(queue.ahead, queue.position - 1)]);
  if (row)
    list.push(["priority", count(row.priority)], ["GPUs", count(row.gpus)], ["created", clock(row.since, model.now())]);
  if (gang.placement) list.push(["on nodes", shares(Object.entries(gang.placement.gpusPerNode))]);
  return el(
    "dl",
    { class: "facts" },
    list.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** Write how many GPUs are on which nodes: `8 GPUs on each of 20`, or node by node as far as there is room. */
function shares(nodes) {
  const [first] = nodes;
  if (!first) return "none";
  if (nodes.length > 2 && nodes.every(([, gpus]) => gpus === first[1])) {
    return `${many(first[1], "GPU")} on each of ${count(nodes.length)}`;
  }
  const shown = nodes.slice(0, MOST_NODES).map(([node, gpus]) => `${node}: ${gpus}`);
  return shown.join(", ") + (nodes.length > MOST_NODES ? ` and ${count(nodes.length - MOST_NODES)} more` : "");
}

function links(names, all) {
  const shown = names.flatMap((name, index) => [index ? ", " : "", el("a", { href: gangLink(name) }, name)]);
  return all > names.length ? [...shown, ` and ${count(all - names.length)} more`] : shown;
}

/** Return what explains: which nodes were left for it, or why it got these. */
export function left(gang, model) {
  const { waterfall, choice } = gang;
  const remarks = unsaid(gang);
  return [
    waterfall?.length ? panel("Which nodes it can use", waterfalls(waterfall)) : null,
    choice
      ? panel(
          "Why these nodes",
          el("p", { class: "dim" }, `${many(choice.considered, "place")} considered`),
          list(choice.lines),
        )
      : null,
    remarks.length ? panel("Remarks", list(remarks.map((line) => withClocks(line, model.now())))) : null,
  ];
}

/** Return the remarks that say what is not on the page already: reason, place in line and nearest miss are. */
function unsaid({ remarks, reason, queue, nearestMiss, suggestions }) {
  const said = [reason?.message, ...(suggestions ?? []).map((each) => each.message)].filter(Boolean);
  return (remarks ?? []).filter(
    (line) =>
      !said.some((text) => line.includes(text)) &&
      !(queue?.position && / in line\b/.test(line)) &&
      !(nearestMiss && line.startsWith("nearest: ")),
  );
}

/** Return what helps: what would let it run, and who holds what it needs. */
export function right({ suggestions, nearestMiss, holders }, model) {
  return [
    helps(suggestions, false, "What would let it run now", model),
    helps(suggestions, true, "What would let it run later", model),
    nearestMiss || holders?.length ? panel("Nearest miss", miss(nearestMiss), holding(holders ?? [], model)) : null,
  ];
}

function helps(suggestions, later, title, model) {
  const lines = (suggestions ?? []).filter((each) => each.later === later).map((each) => each.message);
  return lines.length ? panel(title, list(lines.map((line) => withClocks(line, model.now())))) : null;
}

const list = (lines) =>
  el(
    "ul",
    { class: "suggestions" },
    lines.map((line) => el("li", {}, line)),
  );

/** Return a part of the page under a title. */
export function panel(title, ...content) {
  const id = `panel-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return el("section", { class: "panel", "aria-labelledby": id }, el("h2", { id }, title), content);
}

function miss(nearest) {
  if (!nearest) return null;
  const lacks = Object.entries(nearest.lacks)
    .map(([resource, value]) => `${value} ${resourceName(resource)}`)
    .join(", ");
  const where = nearest.domain ? domainName(nearest.level, nearest.domain) : `the ${nearest.level}`;
  return el(
    "p",
    {},
    el("b", {}, where),
    ` has room for ${count(nearest.fits)} of ${many(nearest.needed, "member")}${lacks ? `; it lacks ${lacks}` : ""}.`,
  );
}

function holding(holders, model) {
  if (!holders.length) return null;
  const number = (id, title) => ({
    id,
    title,
    kind: "number",
    sort: (each) => each[id],
    cell: (each) => count(each[id]),
  });
  const ends = (each) =>
    each.endsAt ? `${clock(each.endsAt, model.now())}${each.overdue ? ", overdue" : ""}` : "not declared";
  const name = ({ gang }) => (model.gangs.has(gang) ? el("a", { href: gangLink(gang) }, gang) : gang);
  const table = new Table({
    name: "holders",
    label: "Who holds it",
    key: (each) => each.gang,
    columns: [
      { id: "gang", title: "Who holds it", head: true, sort: (each) => each.gang, cell: name },
      number("gpus", "GPUs"),
      number("nodes", "Nodes"),
      number("priority", "Priority"),
      { id: "queue", title: "Queue", sort: (each) => each.queue, cell: (each) => named("queues", each.queue) },
      { id: "ends", title: "Ends", sort: (each) => each.endsAt, cell: ends },
    ],
  });
  table.show(holders);
  return table.frame;
}

/** Return the tree of a gang's parts, as a panel; null for one that has none. Those that it does without are extras. */
export function parts(gang) {
  if (!gang.parts) return null;
  const number = (id, title) => ({ id, title, kind: "number", cell: ({ part }) => count(part[id]) });
  const together = ({ part }) => part.required ?? (part.preferred ? `${part.preferred} (preferred)` : "–");
  const table = new Table({
    name: "parts",
    label: "Parts",
    key: (row) => row.key,
    attributes: ({ part }) => (part.needed ? {} : { class: "extra" }),
    columns: [
      { id: "part", title: "Part", head: true, cell: ({ depth, name }) => `${"\u2003".repeat(depth)}${name}` },
      { id: "state", title: "State", cell: ({ part }) => (part.needed ? part.state : `${part.state} (extra)`) },
      {
        id: "bound",
        title: "Bound",
        kind: "number",
        cell: ({ part }) => `${count(part.bound)} / ${count(part.minimum)}`,
      },
      number("running", "Running"),
      number("exist", "Exist"),
      { id: "lacks", title: "Lacks", kind: "number", cell: ({ part }) => (part.lacks ? many(part.lacks, "pod") : "–") },
      { id: "together", title: "Together in one", cell: together },
      { id: "where", title: "Where", cell: whereabouts },
      { id: "reason", title: "Reason", cell: ({ part }) => part.reason ?? "–" },
    ],
  });
  table.show(partRows(gang.parts, gang.name, 0, ""));
  return panel("Parts", table.frame);
}

/** Return the parts of a part, itself first, with how deep each is and a key of its own. */
function partRows(part, name, depth, above) {
  const key = `${above}/${part.name}`;
  const below = part.parts.flatMap((each, index) => partRows(each, "all", depth + 1, `${key}${index}`));
  return [{ part, name: part.name || name, depth, key }, ...below];
}

function whereabouts({ part }) {
  if (!part.level) return "–";
  return part.domain ? domainName(part.level, part.domain) : "across the cluster";
}

/** Return a table for a gang's members, to be shown with `show(pods)`. */
export function memberTable() {
  const which = (values, observed) => (values ? `${values.join(" ")}${observed ? "" : " (predicted)"}` : "–");
  const text = (id, title) => ({ id, title, sort: (pod) => pod[id], cell: (pod) => pod[id] ?? "–" });
  return new Table({
    name: "members",
    label: "Members",
    key: (pod) => pod.name,
    stamp: (pod) => JSON.stringify(pod),
    columns: [
      { ...text("name", "Pod"), head: true },
      text("role", "Role"),
      text("state", "State"),
      { ...text("node", "Node"), cell: (pod) => named("nodes", pod.node) },
      { id: "gpus", title: "GPUs", cell: (pod) => which(pod.gpus, pod.observed) },
      { id: "zones", title: "NUMA zones", cell: (pod) => which(pod.zones, pod.observed) },
    ],
  });
}
