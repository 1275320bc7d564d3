// Large clusters as places: each innermost domain that there is room for is one tile instead of its nodes.

import { nodesOf, runs, tally } from "./model.js";

/** From so many nodes on, places are shown; and so many of them at most, where the levels allow that. */
export const CROWD = 1_000;
const MOST_PLACES = 2_000;
/** A place has the shape of a node with so many GPUs. */
const SHAPE = 8;

/** A domain as one tile of the picture. It has a node's name, and what its nodes hold, counted. */
class Place {
  constructor(tree) {
    this.tree = tree;
    this.name = tree.name;
    this.level = tree.level;
    this.title = tree.title;
    this.nodes = nodesOf(tree);
    this.gpus = SHAPE;
    this.stamp = "";
  }

  get schedulable() {
    return this.sum.schedulable > 0;
  }

  /** Count again what its nodes hold, where they or the colours are others: `modes` says which colour a GPU has. */
  refresh(model, modes) {
    let changed = this.stamp !== modes.stamp;
    this.nodes.forEach((node, index) => {
      const now = model.nodes.get(node.name) ?? node;
      changed ||= now !== node;
      this.nodes[index] = now;
    });
    if (!changed) return;
    this.stamp = modes.stamp;
    this.sum = tally(this.nodes);
    const { gpus, used, reserved } = this.sum;
    this.free = gpus ? (gpus - used - reserved) / gpus : 0;
    this.shares = modes.mode === "free" ? [[`u${modes.slot(this, "")}`, 1]] : this.divide(modes);
  }

  /** Return what its GPUs are, as they are painted, with how many they are; those that are free come last. */
  divide(modes) {
    const shares = new Map();
    for (const node of this.nodes) {
      for (const { holder, reserved, length } of runs(node)) {
        const slot = modes.slot(node, holder);
        const key = slot === null ? "f" : `${reserved ? "r" : "u"}${slot}`;
        shares.set(key, (shares.get(key) ?? 0) + length);
      }
    }
    const rank = (key) => (key === "f" ? 1 : 0);
    return [...shares].sort((a, b) => rank(a[0]) - rank(b[0]) || b[1] - a[1]);
  }
}

/** Return the tree in which domains of the innermost level that fits stand as places in those around them. */
export function places(tree) {
  let depth = 1;
  for (let next = 2; next <= depthOf(tree); next += 1) if (widthAt(tree, next) <= MOST_PLACES) depth = next;
  return gather(tree, depth);
}

function gather(tree, depth) {
  const whole = tree.domains.filter((domain) => depth <= 1 || !domain.domains.length);
  const inner = tree.domains.filter((domain) => !whole.includes(domain)).map((domain) => gather(domain, depth - 1));
  return { ...tree, nodes: [...whole.map((domain) => new Place(domain)), ...tree.nodes], domains: inner };
}

const depthOf = (tree) => 1 + Math.max(-1, ...tree.domains.map(depthOf));

/** Count the places that there are where domains of so many levels are opened. */
const widthAt = (tree, depth) =>
  tree.domains.reduce(
    (sum, domain) => sum + (depth <= 1 || !domain.domains.length ? 1 : widthAt(domain, depth - 1)),
    0,
  );

/** Return the domain called `level:name` in a tree with those around it, outermost first; none where it is gone. */
export function pathTo(tree, called) {
  if (!called) return [tree];
  for (const domain of tree.domains) {
    if (`${domain.level}:${domain.name}` === called) return [tree, domain];
    const found = pathTo(domain, called);
    if (found.length) return [tree, ...found];
  }
  return [];
}
