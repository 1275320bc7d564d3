// The timeline: how many gangs started, were evicted or ran out of time when, and the latest events in words.

import { el, keyed, replace, say, svg } from "./dom.js";
import { clock, count, many, span, withClocks } from "./format.js";
import { gangLink } from "./route.js";

const LANES = [
  ["started", "Starts"],
  ["evicted", "Evictions"],
  ["expired", "Expiries"],
];
const SPANS = [5 * 60, 15 * 60, 3600, 6 * 3600, 86400];
const LISTED = 60;
const LANE = 30;
const LEFT = 66;
const RIGHT = 6;
const BIN = 6;

/** Show the model's events: as lanes in `lanes`, as a list in `list`, and the span of time in `heading`. */
export function showTimeline({ lanes, list, heading }, model, filter) {
  lanes.room ??= follow(lanes);
  const now = model.now();
  const events = model.events.filter((event) => filter.event(event));
  const oldest = events.length ? (now - Date.parse(events[0].time)) / 1000 : 0;
  const seconds = SPANS.find((each) => oldest <= each) ?? SPANS.at(-1);
  say(heading, `last ${span(seconds)}`);
  replace(lanes, drawLanes(events, now, seconds, lanes.room.width));
  const latest = events.slice(-LISTED).reverse();
  keyed(list, latest.length ? latest : [null], {
    key: (event) => (event ? String(event.seq) : ""),
    stamp: (event) => (event ? clock(event.time, now) : filter.on),
    make: () => el("li"),
    refill: (element, event) =>
      replace(
        element,
        event
          ? line(event, now)
          : el("p", { class: "empty" }, filter.on ? "No event matches the filter." : "Nothing has happened yet."),
      ),
  });
}

/** Follow how wide an element is: asking it each time would have the whole page laid out in between. */
function follow(element) {
  const room = { width: element.clientWidth || 380 };
  new ResizeObserver(([entry]) => {
    room.width = Math.round(entry.contentRect.width) || room.width;
  }).observe(element);
  return room;
}

function line(event, now) {
  const waited = event.waitedSeconds === null ? "" : ` after ${span(event.waitedSeconds)}`;
  const name = event.gang || event.about;
  return [
    el("time", { datetime: event.time }, clock(event.time, now)),
    el("span", { class: `kind ${event.kind}${event.warning ? " warning" : ""}` }, event.kind),
    el(
      "span",
      {},
      event.gang ? el("a", { href: gangLink(event.gang) }, event.gang) : name,
      waited,
      event.message ? ` ${withClocks(event.message, now)}` : "",
    ),
  ];
}

function drawLanes(events, now, seconds, width) {
  const height = LANES.length * LANE + 18;
  const bins = Math.max(1, Math.floor((width - LEFT - RIGHT) / BIN));
  const counts = new Map(LANES.map(([kind]) => [kind, new Array(bins).fill(0)]));
  for (const event of events) {
    const place = Math.floor((1 - (now - Date.parse(event.time)) / 1000 / seconds) * bins);
    const lane = counts.get(event.kind);
    if (lane && place >= 0) lane[Math.min(place, bins - 1)] += 1;
  }
  const most = Math.max(1, ...[...counts.values()].flat());
  const words = LANES.map(
    ([kind, title]) => `${title.toLowerCase()} ${count(counts.get(kind).reduce((sum, each) => sum + each, 0))}`,
  );
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    class: "lanes",
    role: "img",
    "aria-label": `In the last ${span(seconds)}: ${words.join(", ")}`,
  });
  LANES.forEach(([kind, title], index) => {
    const bottom = (index + 1) * LANE;
    const lane = counts.get(kind);
    picture.append(
      svg("text", { x: 0, y: bottom - 4 }, title),
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: bottom + 0.5, y2: bottom + 0.5, class: "axis" }),
    );
    lane.forEach((number, bin) => {
      if (!number) return;
      const high = Math.max(4, (number / most) * (LANE - 6));
      picture.append(
        svg(
          "rect",
          { x: LEFT + bin * BIN, y: bottom - high, width: BIN - 1, height: high, rx: 1, class: `lane-${kind}` },
          svg(
            "title",
            {},
            many(
              number,
              title.toLowerCase().replace(/(y|ie)?s$/, (end) => (end === "ies" ? "y" : "")),
            ),
          ),
        ),
      );
    });
  });
  const ticks = [
    [LEFT, `−${span(seconds)}`, "start"],
    [width - RIGHT, "now", "end"],
    [(LEFT + width - RIGHT) / 2, `−${span(seconds / 2)}`, "middle"],
  ];
  for (const [x, text, anchor] of ticks) picture.append(svg("text", { x, y: height - 4, "text-anchor": anchor }, text));
  return picture;
}
