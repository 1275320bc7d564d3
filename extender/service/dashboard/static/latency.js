// How long the verbs and the pass take, and what is being recorded.

import { bar, el, replace, say, tableHead } from "./dom.js";
import { amount, count, millis } from "./format.js";

/** Bars go from the first to the last of these, in milliseconds, each tenfold the one before as long as another. */
const LEAST = 0.01;
const MOST = 10_000;

/** Show the latencies of the model's status in a table, and its recording in a line. */
export function showLatency(table, recording, { status }) {
  if (!status) return;
  const stamp = JSON.stringify([status.verbs, status.pass, status.recording]);
  if (table.stamp === stamp) return;
  table.stamp = stamp;
  const rows = [
    ...status.verbs.map((verb) => [verb.verb, verb.calls, verb]),
    ["admission pass", status.pass.calls, status.pass],
  ];
  const titles = [["Verb"], ["Calls", "number"], ["p50", "number"], ["p99", "number"], ["p50 to p99"]];
  replace(
    table,
    tableHead(titles),
    el(
      "tbody",
      {},
      rows.map(([name, calls, times]) => row(name, calls, times)),
    ),
  );
  const { on, inputs, bytes } = status.recording ?? { on: false };
  say(
    recording,
    on ? `Recording: ${count(inputs)} inputs, ${amount("memory", bytes)}; muster snapshot save fetches it.` : "",
  );
}

function row(name, calls, { p50Ms, p99Ms }) {
  const low = place(p50Ms);
  const drawn = bar(
    [
      ["beyond", low],
      ["used", Math.max(2, place(p99Ms) - low)],
    ],
    100,
    "slim",
  );
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, name),
    el("td", { class: "number" }, count(calls)),
    el("td", { class: "number" }, millis(p50Ms)),
    el("td", { class: "number" }, millis(p99Ms)),
    el("td", {}, p50Ms === null || p99Ms === null ? "" : drawn),
  );
}

/** Return where a time is on the scale, from 0 to 100. */
function place(value) {
  if (!value) return 0;
  const share = Math.log(value / LEAST) / Math.log(MOST / LEAST);
  return 100 * Math.max(0, Math.min(1, share));
}
