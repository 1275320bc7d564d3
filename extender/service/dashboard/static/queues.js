// The tree of queues, with what each has of its quota: its own, borrowed, lent.

import { bar, el, keepFocus, replace } from "./dom.js";
import { amount, count, isGpu, natural, resourceName } from "./format.js";
import { pageLink } from "./route.js";

const LEGEND = [
  ["used", "used"],
  ["borrowed", "borrowed"],
  ["lent", "lent"],
  ["nominal", "nominal quota"],
];

/** Show the model's queues in `host`, those that the filter keeps with what is above them. */
export function showQueues(host, legend, model, filter) {
  const stamp = JSON.stringify([model.queues, filter.words]);
  if (host.stamp === stamp) return;
  host.stamp = stamp;
  const { queues } = model;
  replace(
    legend,
    queues.length ? LEGEND.map(([name, text]) => el("span", {}, el("i", { class: `swatch ${name}` }), text)) : [],
  );
  if (!queues.length) {
    replace(
      host,
      el(
        "p",
        { class: "empty" },
        "No Queues: gangs are ordered by priority and age, and nothing limits what they use.",
      ),
    );
    return;
  }
  const names = new Set(queues.map((queue) => queue.name));
  const children = new Map();
  for (const queue of queues) {
    const above = names.has(queue.parent) && queue.parent !== queue.name ? queue.parent : "";
    children.set(above, [...(children.get(above) ?? []), queue]);
  }
  const roots = children.get("") ?? [];
  const tree = roots.length ? branch(roots, children, filter, new Set()) : null;
  const open = new Set([...host.querySelectorAll("details[open]")].map((each) => each.dataset.queue));
  keepFocus(host, () => {
    replace(host, tree ?? el("p", { class: "empty" }, "No queue matches the filter."));
    for (const each of host.querySelectorAll("details")) each.open = open.has(each.dataset.queue);
  });
}

/** Return what one of the model's queues has of its quota, and what is above and below it. */
export function quotas(model, name) {
  const queue = model.queues.find((each) => each.name === name);
  if (!queue) return el("p", { class: "empty" }, "There is no such Queue now.");
  const link = (each) => el("a", { href: pageLink("queues", each) }, each);
  const below = model.queues.filter((each) => each.parent === name).map((each) => each.name);
  return [
    one(queue),
    queue.parent ? el("p", {}, "Part of ", link(queue.parent), ".") : null,
    below.length
      ? el(
          "p",
          {},
          "Above ",
          below.flatMap((each, at) => [at ? ", " : "", link(each)]),
          ".",
        )
      : null,
  ];
}

function branch(queues, children, filter, seen) {
  const items = [];
  for (const queue of [...queues].sort((a, b) => natural(a.name, b.name))) {
    if (seen.has(queue.name)) continue;
    seen.add(queue.name);
    const below = branch(children.get(queue.name) ?? [], children, filter, seen);
    if (below || filter.queue(queue)) items.push(el("li", {}, one(queue), below));
  }
  return items.length ? el("ul", { class: "queue-tree" }, items) : null;
}

function one(queue) {
  const flavors = [...queue.flavors].sort(
    (a, b) => isGpu(b.resource) - isGpu(a.resource) || natural(a.name, b.name) || natural(a.resource, b.resource),
  );
  const gpus = flavors.filter((use) => isGpu(use.resource));
  const others = flavors.filter((use) => !isGpu(use.resource));
  const first = gpus.length ? gpus : others;
  const state =
    queue.message && el("p", { class: "warning" }, [queue.reason, queue.message].filter(Boolean).join(": "));
  const gangs = `${count(queue.admittedGangs)} admitted, ${count(queue.pendingGangs)} waiting`;
  return el(
    "div",
    { class: "queue" },
    el(
      "div",
      { class: "queue-head" },
      el("b", {}, el("a", { href: pageLink("queues", queue.name) }, queue.name)),
      el("span", {}, `${queue.active ? "" : "inactive, "}${gangs}, share ${queue.share.toFixed(2)}`),
    ),
    state || null,
    first.map((use) => quota(use, queue.flavors)),
    gpus.length && others.length
      ? el(
          "details",
          { "data-queue": queue.name },
          el("summary", {}, "other resources"),
          others.map((use) => quota(use, queue.flavors)),
        )
      : null,
  );
}

function quota(use, flavors) {
  const { resource, nominal, used, borrowed, lent } = use;
  const several = new Set(flavors.map((each) => each.name)).size > 1 || use.name !== "default";
  const whole = Math.max(nominal, used);
  const what = several ? `${resourceName(resource)} of ${use.name}` : resourceName(resource);
  const words = [`${amount(resource, used)} of ${amount(resource, nominal)} ${what}`];
  if (borrowed) words.push(`${amount(resource, borrowed)} borrowed`);
  if (lent) words.push(`${amount(resource, lent)} lent`);
  const own = used - borrowed;
  const drawn = bar(
    [
      ["used", own],
      ["borrowed", borrowed],
      ["lent", Math.min(lent, Math.max(0, whole - used))],
    ],
    whole,
  );
  if (whole > 0 && nominal > 0) {
    const tick = el("span", { class: "tick" });
    tick.style.left = `calc(${(100 * nominal) / whole}% - 2px)`;
    drawn.append(tick);
  }
  return el("div", { class: "quota" }, drawn, el("span", {}, words.join(", ")));
}
