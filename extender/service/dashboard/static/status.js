// The status line: GPUs, nodes, gangs by phase, what waits and why, who has waited longest.

import { bar, el, keyed, replace, say } from "./dom.js";
import { count, many, span } from "./format.js";
import { gangLink } from "./route.js";

const SPOKEN_EVERY_MS = 10_000;

/** Show the model's status in `host`. */
export function showStatus(host, model) {
  const { status } = model;
  keyed(host, status ? tiles(status, model.now()) : [], {
    key: (tile) => tile.title,
    stamp: (tile) => JSON.stringify(tile.facts),
    make: (tile) => el("div", { class: tile.title === "GPUs" ? "stat big" : "stat" }),
    refill: (element, tile) => replace(element, el("h2", {}, tile.title), tile.draw()),
  });
}

function tiles({ gpus, nodes, gangs, waiting, oldestWait, hidden = [], hiddenGangs = 0 }, now) {
  const reasons = Object.entries(waiting).sort((a, b) => b[1] - a[1]);
  const waits = reasons.reduce((sum, [, number]) => sum + number, 0);
  const waited = oldestWait ? span(Math.floor((now - Date.parse(oldestWait.since)) / 1000)) : "";
  const ofNodes = [
    { title: "GPUs", facts: gpus, draw: () => gpuTile(gpus) },
    {
      title: "Nodes",
      facts: nodes,
      draw: () => [
        figure(count(nodes.total)),
        note(`${count(nodes.withGpus)} with GPUs, ${count(nodes.schedulable)} schedulable`),
      ],
    },
  ];
  const others = {
    title: "Not shown",
    facts: hiddenGangs,
    draw: () => [figure(count(hiddenGangs)), note("gangs of namespaces that you may not list")],
  };
  return [
    ...(hidden.includes("nodes") ? [] : ofNodes),
    ...(hiddenGangs ? [others] : []),
    {
      title: "Running gangs",
      facts: gangs,
      draw: () => [
        figure(count(gangs.Running ?? 0)),
        note(
          [
            ["Scheduling", "starting"],
            ["Finished", "finished"],
            ["Failed", "failed"],
          ]
            .map(([phase, word]) => `${count(gangs[phase] ?? 0)} ${word}`)
            .join(", "),
        ),
      ],
    },
    {
      title: "Waiting gangs",
      facts: [gangs, reasons],
      draw: () => [
        figure(count(Math.max(waits, gangs.Pending ?? 0))),
        note(reasons.map(([code, number]) => `${count(number)} ${code}`).join(", ") || "none waits"),
      ],
    },
    {
      title: "Longest wait",
      facts: [oldestWait?.gang, waited],
      draw: () =>
        oldestWait
          ? [figure(waited), el("p", {}, el("a", { href: gangLink(oldestWait.gang) }, oldestWait.gang))]
          : [figure("–"), note("none waits")],
    },
  ];
}

function gpuTile({ allocatable, used, reserved, free }) {
  const share = allocatable ? `${Math.round((100 * used) / allocatable)} %` : "";
  return [
    el(
      "p",
      { class: "figure" },
      count(used),
      el("small", {}, ` of ${many(allocatable, "GPU")} used ${share && `(${share})`}`),
    ),
    bar(
      [
        ["used", used],
        ["reserved", reserved],
      ],
      allocatable,
    ),
    note(`${count(reserved)} reserved, ${count(free)} free`),
  ];
}

const figure = (text) => el("p", { class: "figure" }, text);
const note = (text) => el("p", {}, text);

/** Tell a screen reader how the cluster stands: when that is another, and not more often than can be listened to. */
export class Spoken {
  constructor(host) {
    this.host = host;
    this.last = -Infinity;
    this.timer = 0;
    this.text = "";
  }

  update({ status }) {
    if (!status) return;
    const { gpus, gangs } = status;
    this.text =
      `${many(gangs.Running ?? 0, "gang")} running, ${count(gangs.Pending ?? 0)} waiting, ` +
      `${count(gpus.used)} of ${count(gpus.allocatable)} GPUs used`;
    if (this.timer) return;
    const pause = Math.max(0, this.last + SPOKEN_EVERY_MS - performance.now());
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.last = performance.now();
      say(this.host, this.text);
    }, pause);
  }
}
