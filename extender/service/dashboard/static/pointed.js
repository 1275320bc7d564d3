// What is pointed at in the picture, in words: a node with its gangs, or a domain.

import { OTHER, swatch } from "./colours.js";
import { el } from "./dom.js";
import { count, domainName, many, natural, span, within } from "./format.js";
import { tally } from "./model.js";
import { gangLink } from "./route.js";

const MOST_GANGS = 12;

/** Return the words about a node, and about one of its GPUs (-1 for none). */
export function nodeWords(node, gpu, { model, modes }) {
  const sum = tally([node]);
  const reserved = sum.reserved ? `, ${sum.reserved} reserved` : "";
  const gangs = [...sum.gangs].sort(natural);
  return [
    el("b", {}, node.name),
    whereabouts(node, model),
    node.product ? el("span", {}, node.product) : null,
    node.schedulable ? null : el("span", { class: "late" }, "unschedulable"),
    el("span", {}, node.gpus ? `${sum.used} of ${many(node.gpus, "GPU")} used${reserved}` : "no GPUs"),
    gpu >= 0 ? el("span", {}, `GPU ${gpu}: ${node.cells[gpu] || "free"}`) : null,
    ...gangs.slice(0, MOST_GANGS).map((name) => holder(name, node, model, modes)),
    gangs.length > MOST_GANGS ? el("span", {}, `and ${count(gangs.length - MOST_GANGS)} more`) : null,
  ];
}

function whereabouts(node, model) {
  const where = node.domains.map(
    (name, level) => name && domainName(model.levels[level], within(name, node.domains[level - 1])),
  );
  return where.some(Boolean) ? el("span", {}, where.filter(Boolean).join(" · ")) : null;
}

function holder(name, node, model, modes) {
  const held = node.cells.filter((cell) => cell === name).length;
  if (!model.gangs.has(name)) return el("span", {}, swatch(OTHER), `${name} ${held}`);
  return el("span", {}, swatch(modes.gang(name)), el("a", { href: gangLink(name) }, name), ` ${held}`);
}

/** Return the words about a domain of which these are the nodes. */
export function domainWords({ level, name }, nodes) {
  const sum = tally(nodes);
  const free = sum.gpus - sum.used - sum.reserved;
  const rest = `${count(sum.reserved)} reserved, ${count(free)} free`;
  const gpus = `${count(sum.used)} of ${many(sum.gpus, "GPU")} used, ${rest}`;
  return [
    el("b", {}, domainName(level, name)),
    el("span", {}, `${many(sum.nodes, "node")}, ${gpus}, ${many(sum.gangs.size, "gang")}`),
  ];
}

/** Return the nodes of a box of the picture. */
export const nodesIn = (box) => [
  ...box.nodes.flatMap(({ node }) => node.nodes ?? [node]),
  ...box.boxes.flatMap(nodesIn),
];

/** Return the few words that stand beside the pointer: what it is on, and who holds it; none for nothing. */
export function tipWords({ entry, gpu }, model) {
  const { node } = entry;
  if (node.tree) {
    const { gpus, used, reserved } = node.sum;
    return [el("b", {}, node.title), el("span", {}, `${count(gpus - used - reserved)} of ${many(gpus, "GPU")} free`)];
  }
  const name = node.cells[gpu] ?? "";
  const row = model.gangs.get(name);
  if (!row) return [el("b", {}, node.name), el("span", {}, gpu < 0 ? "" : `GPU ${gpu}: ${name || "free"}`)];
  const age = span(Math.max(0, (model.now() - Date.parse(row.startedAt ?? row.since ?? "")) / 1000));
  const facts = [row.queue && `Queue ${row.queue}`, many(row.gpusHeld, "GPU"), `${row.phase}, ${age}`];
  return [
    el("b", {}, name),
    el("span", {}, facts.filter(Boolean).join(" · ")),
    el("span", {}, `GPU ${gpu} of ${node.name}`),
  ];
}
