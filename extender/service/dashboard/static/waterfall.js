// The waterfall: how many nodes each constraint takes away from a gang's pods, until those are left that it can use.

import { bar, el, tableHead } from "./dom.js";
import { amount, count, many, resourceName } from "./format.js";

/** What the codes of causes mean. */
const CAUSES = {
  Unschedulable: "cordoned or not ready",
  Tainted: "tainted, and the pods do not tolerate it",
  SelectorMismatch: "node selector or affinity does not match",
  OtherFlavor: "of a kind that the queue's quota does not cover",
  DevicesUnready: "a driver has not published all of its devices there",
  DevicesTainted: "have the devices, but these are tainted",
  LacksResource: "have none of a resource at all",
  TooSmall: "too small, even when empty",
  RefusedByScheduler: "kube-scheduler refused them",
  RejectedByKubelet: "the kubelet rejected such pods",
  TooFull: "too full",
  ReservedForOthers: "reserved for other gangs",
  KeptForHead: "kept for the gang at the head",
  NumaMisaligned: "no NUMA zone has room",
  OutsideDomain: "have room, but their domain has not enough for all",
};

/** Return the waterfalls of an explanation: a table for each shape of pod. */
export function waterfalls(falls) {
  return falls.map((fall) =>
    el(
      "table",
      { class: "falls" },
      el("caption", {}, `${many(fall.pods, "pod")} of ${request(fall.request)}`),
      head(),
      el("tbody", {}, rows(fall)),
    ),
  );
}

function head() {
  const titles = [["Nodes"], [""], ["Removed", "number"], ["Left", "number"]];
  return tableHead(titles);
}

function rows({ nodes, steps, usable, fits, pods }) {
  const enough = fits >= pods;
  return [
    row("all nodes", bar([["left", nodes]], nodes), "", count(nodes)),
    ...steps
      .filter((step) => step.nodes > 0)
      .map((step) =>
        row(
          [el("b", {}, step.cause), ` ${step.detail || CAUSES[step.cause] || ""}`],
          bar(
            [
              ["left", step.left],
              ["gone", step.nodes],
            ],
            nodes,
          ),
          `−${count(step.nodes)}`,
          count(step.left),
        ),
      ),
    row(
      [el("b", {}, "usable"), ` room for ${many(fits, "pod")}, ${enough ? "enough" : `${count(pods)} needed`}`],
      bar([["usable", usable]], nodes),
      "",
      count(usable),
    ),
  ];
}

function row(title, drawn, removed, left) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, title),
    el("td", {}, drawn),
    el("td", { class: "number" }, removed),
    el("td", { class: "number" }, left),
  );
}

function request(wanted) {
  const words = Object.entries(wanted).map(
    ([resource, value]) => `${quantity(resource, value)} ${resourceName(resource)}`,
  );
  return words.join(", ") || "no requests";
}

/** Write a request: as Kubernetes does where it is text, otherwise in the units of its resource. */
function quantity(resource, value) {
  return typeof value === "number" ? amount(resource, value) : value;
}
