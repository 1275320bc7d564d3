// What is pointed at in the picture, in words: a node with its gangs, or a domain.

import { el } from "./dom.js";
import { count, domainName, many, natural, within } from "./format.js";
import { tally } from "./model.js";
import { gangLink } from "./route.js";

/** Return the words about a node, and about one of its GPUs (-1 for none). */
export function nodeWords(node, gpu, { model, colours }) {
  const where = node.domains.map(
    (name, level) => name && domainName(model.levels[level], within(name, node.domains[level - 1])),
  );
  const sum = tally([node]);
  const reserved = sum.reserved ? `, ${sum.reserved} reserved` : "";
  return [
    el("b", {}, node.name),
    where.some(Boolean) ? el("span", {}, where.filter(Boolean).join(" · ")) : null,
    node.schedulable ? null : el("span", { class: "late" }, "unschedulable"),
    el("span", {}, node.gpus ? `${sum.used} of ${many(node.gpus, "GPU")} used${reserved}` : "no GPUs"),
    gpu >= 0 ? el("span", {}, `GPU ${gpu}: ${node.cells[gpu] || "free"}`) : null,
    ...[...sum.gangs].sort(natural).map((name) => holder(name, node, model, colours)),
  ];
}

function holder(name, node, model, colours) {
  const held = node.cells.filter((cell) => cell === name).length;
  if (!model.gangs.has(name)) return el("span", {}, el("i", { class: "swatch other" }), `${name} ${held}`);
  return el("span", {}, el("i", { class: colours.classes(name) }), el("a", { href: gangLink(name) }, name), ` ${held}`);
}

/** Return the words about a domain, as a box of the picture. */
export function boxWords(box) {
  const sum = tally(entriesOf(box).map((entry) => entry.node));
  const free = sum.gpus - sum.used - sum.reserved;
  const rest = `${count(sum.reserved)} reserved, ${count(free)} free`;
  const gpus = `${count(sum.used)} of ${many(sum.gpus, "GPU")} used, ${rest}`;
  return [
    el("b", {}, domainName(box.level, box.name)),
    el("span", {}, `${many(sum.nodes, "node")}, ${gpus}, ${many(sum.gangs.size, "gang")}`),
  ];
}

function entriesOf(box) {
  return [...box.nodes, ...box.boxes.flatMap(entriesOf)];
}
