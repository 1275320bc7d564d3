// What the page of a gang consists of: its reason, its facts, and a panel for each thing that explains it.

import { el, tableHead } from "./dom.js";
import { clock, count, domainName, expected, many, resourceName, withClocks } from "./format.js";
import { gangLink } from "./route.js";
import { waterfalls } from "./waterfall.js";

const MOST_NODES = 8;
const MOST_MEMBERS = 500;

/** Return the phase of a gang, as a badge. */
export function phase(gang) {
  const kind = { Running: "good", Finished: "good", Failed: "bad" }[gang.phase] ?? "warn";
  return el("span", { class: `badge ${kind}` }, gang.phase);
}

/** Return why a gang waits, with its numbers; null for one that does not. */
export function callout(gang, now) {
  if (!gang.reason) return null;
  const numbers = Object.entries(gang.reason.numbers ?? {});
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
  if (queue?.name) list.push(["Queue", queue.name]);
  if (queue?.position)
    list.push([
      "place in line",
      `${count(queue.position)} of ${count(queue.of)}${queue.name ? " over all Queues" : ""}`,
    ]);
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
export function left({ waterfall, choice, remarks }, model) {
  return [
    waterfall?.length ? panel("Which nodes it can use", waterfalls(waterfall)) : null,
    choice
      ? panel(
          "Why these nodes",
          el("p", { class: "dim" }, `${many(choice.considered, "place")} considered`),
          list(choice.lines),
        )
      : null,
    remarks?.length ? panel("Remarks", list(remarks.map((line) => withClocks(line, model.now())))) : null,
  ];
}

/** Return what helps: what would let it run, and who holds what it needs. */
export function right({ suggestions, nearestMiss, holders }, model) {
  return [
    suggestions?.length ? panel("What would let it run now", list(suggestions.map((each) => each.message))) : null,
    nearestMiss || holders?.length ? panel("Nearest miss", miss(nearestMiss), holding(holders ?? [], model)) : null,
  ];
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
  const titles = [
    ["Who holds it"],
    ["GPUs", "number"],
    ["Nodes", "number"],
    ["Priority", "number"],
    ["Queue"],
    ["Ends"],
  ];
  return el(
    "table",
    {},
    tableHead(titles),
    el(
      "tbody",
      {},
      holders.map((each) =>
        el(
          "tr",
          {},
          el(
            "th",
            { scope: "row" },
            model.gangs.has(each.gang) ? el("a", { href: gangLink(each.gang) }, each.gang) : each.gang,
          ),
          el("td", { class: "number" }, count(each.gpus)),
          el("td", { class: "number" }, count(each.nodes)),
          el("td", { class: "number" }, count(each.priority)),
          el("td", {}, each.queue ?? "–"),
          el(
            "td",
            { class: each.overdue ? "late" : "" },
            each.endsAt ? `${clock(each.endsAt, model.now())}${each.overdue ? ", overdue" : ""}` : "not declared",
          ),
        ),
      ),
    ),
  );
}

/** Return the tree of a gang's parts, as a panel; null for one that has none. Those that it does without are extras. */
export function parts(gang) {
  if (!gang.parts) return null;
  const titles = [["Part"], ["State"], ["Bound", "number"], ["Running", "number"], ["Exist", "number"]];
  titles.push(["Lacks", "number"], ["Together in one"], ["Where"], ["Reason"]);
  return panel(
    "Parts",
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Parts" },
      el("table", { class: "parts" }, tableHead(titles), el("tbody", {}, partRows(gang.parts, gang.name, 0))),
    ),
  );
}

function partRows(part, name, depth) {
  const where = part.level && (part.domain ? domainName(part.level, part.domain) : "across the cluster");
  const title = el("th", { scope: "row" }, part.name || name);
  title.style.paddingInlineStart = `${18 * depth}px`;
  const numbers = [`${count(part.bound)} / ${count(part.minimum)}`, count(part.running), count(part.exist)];
  numbers.push(part.lacks ? many(part.lacks, "pod") : "–");
  return [
    el(
      "tr",
      { class: part.needed ? "" : "extra" },
      title,
      el("td", {}, part.needed ? part.state : `${part.state} (extra)`),
      numbers.map((number) => el("td", { class: "number" }, number)),
      el("td", {}, part.required ?? (part.preferred ? `${part.preferred} (preferred)` : "–")),
      el("td", {}, where ?? "–"),
      el("td", {}, part.reason ?? "–"),
    ),
    ...part.parts.map((each) => partRows(each, "all", depth + 1)),
  ];
}

/** Return the table of a gang's members. */
export function members(pods) {
  const titles = [["Pod"], ["Role"], ["State"], ["Node"], ["GPUs"], ["NUMA zones"]];
  const which = (values, observed) => (values ? `${values.join(" ")}${observed ? "" : " (predicted)"}` : "–");
  const beyond = pods.length - MOST_MEMBERS;
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Members" },
    el(
      "table",
      {},
      beyond > 0 ? el("caption", {}, `The first ${count(MOST_MEMBERS)}; muster explain lists all.`) : null,
      tableHead(titles),
      el(
        "tbody",
        {},
        pods
          .slice(0, MOST_MEMBERS)
          .map((pod) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, pod.name),
              ...[
                pod.role ?? "–",
                pod.state,
                pod.node ?? "–",
                which(pod.gpus, pod.observed),
                which(pod.zones, pod.observed),
              ].map((text) => el("td", {}, text)),
            ),
          ),
      ),
    ),
  );
}
