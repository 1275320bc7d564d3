// Curves over time: areas on top of each other, one step for each stretch of time, in the width that there is.

import { OTHER, slotColour, swatch } from "./colours.js";
import { el, replace, svg } from "./dom.js";
import { clock, dayOf, many, minuteOf, span, tenths } from "./format.js";

const HEIGHT = 168;
const LEFT = 44;
const TOP = 8;
const BOTTOM = 20;
const NARROW = 520;
const DAY = 86_400;
/** What stands for all others together. */
const OTHERS = "others";

/**
 * A chart in a panel of its own: append `frame`, and call `show` whenever there are other figures.
 *
 * A series is {name, values, href}; `line` is one more, drawn over them. `step` is in seconds, `unit` stands after
 * figures.
 */
export class Chart {
  constructor(title) {
    this.title = title;
    this.drawing = el("div", { class: "chart" });
    this.key = el("ul", { class: "chart-key" });
    this.sum = el("p", { class: "count" });
    const id = `chart-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
    const head = el("div", { class: "panel-head" }, el("h2", { id }, title), this.sum);
    this.frame = el("section", { class: "panel", "aria-labelledby": id }, head, this.drawing, this.key);
    this.told = null;
    this.width = 0;
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width === this.width) return;
      this.width = width;
      this.draw();
    }).observe(this.drawing);
  }

  show(told) {
    this.told = told;
    this.draw();
  }

  draw() {
    if (!this.told || !this.width) return;
    const { series, line, unit } = this.told;
    const shown = series.filter(({ values }) => values.some((value) => value > 0));
    const steps = Math.max(0, ...series.map(({ values }) => values.length));
    const sums = Array.from({ length: steps }, (_, at) => shown.reduce((sum, { values }) => sum + values[at], 0));
    const average = mean(sums);
    const most = Math.max(0, ...sums);
    const words = `${tenths(average)}${unit} on average, ${tenths(most)}${unit} at most`;
    this.sum.textContent = shown.length ? words : "";
    if (!shown.length) {
      replace(this.drawing, el("p", { class: "empty" }, "Nothing in this time."));
      replace(this.key);
      return;
    }
    const scale = this.scale(roundUp(Math.max(most, ...(line?.values ?? []))), steps);
    const label = `${this.title}: ${words}`;
    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${HEIGHT}`, role: "img", "aria-label": label });
    picture.append(...this.axes(scale, steps));
    let below = new Array(steps).fill(0);
    shown.forEach(({ name, values }, index) => {
      const above = below.map((low, at) => low + values[at]);
      const points = [...stairs(above, scale), ...stairs(below, scale).reverse()];
      const title = svg("title", {}, `${name}: ${tenths(mean(values))}${unit} on average`);
      const area = svg("polygon", { points: points.join(" "), class: "area" }, title);
      area.style.fill = slotColour(slotOf(name, index));
      picture.append(area);
      below = above;
    });
    if (line) picture.append(svg("polyline", { points: stairs(line.values, scale).join(" "), class: "ceiling" }));
    replace(this.drawing, picture);
    this.legend(shown, line, unit);
  }

  legend(shown, line, unit) {
    const entries = shown.map(({ name, values, href }, index) =>
      el(
        "li",
        {},
        swatch(slotOf(name, index)),
        href ? el("a", { href }, name) : name,
        el("span", { class: "dim" }, `${tenths(mean(values))}${unit}`),
      ),
    );
    if (line) entries.push(el("li", {}, el("i", { class: "dash" }), line.name));
    replace(this.key, entries);
  }

  scale(most, steps) {
    const wide = this.width - LEFT;
    const high = HEIGHT - TOP - BOTTOM;
    return {
      most,
      x: (place) => Math.round((LEFT + (place / steps) * wide) * 10) / 10,
      y: (value) => Math.round((TOP + (1 - value / most) * high) * 10) / 10,
    };
  }

  axes({ most, x, y }, steps) {
    const { since, step } = this.told;
    const ticks = this.width < NARROW ? 3 : 6;
    const name = steps * step > 2 * DAY ? dayOf : minuteOf;
    const lines = [0, 0.5, 1].flatMap((part) => [
      svg("line", { x1: LEFT, x2: this.width, y1: y(part * most), y2: y(part * most), class: "axis" }),
      svg("text", { x: LEFT - 6, y: y(part * most) + 4, "text-anchor": "end" }, tenths(part * most)),
    ]);
    const times = Array.from({ length: ticks }, (_, tick) => {
      const place = Math.round((steps * tick) / ticks);
      return svg("text", { x: x(place), y: HEIGHT - 5 }, name(Date.parse(since) + place * step * 1000));
    });
    return [...lines, ...times];
  }
}

/** The charts of what was used and waited for: GPUs, the share of the cluster, and what waits. */
export class Curves {
  /** `link(key)` returns where the page of a series is, by its name. */
  constructor(link) {
    this.link = link;
    this.used = new Chart("GPUs in use");
    this.share = new Chart("Share of the cluster");
    this.waiting = new Chart("GPUs waited for");
    this.gangs = new Chart("Gangs that waited");
    const charts = [this.used, this.share, this.waiting, this.gangs];
    this.frame = el(
      "div",
      { class: "charts" },
      charts.map((chart) => chart.frame),
    );
  }

  /** Show a document of the service; `whole` draws the capacity of the cluster over what is used of it. */
  show({ since, stepSeconds: step, capacity, curves, others }, { whole }) {
    const all = [...curves, ...(others ? [{ ...others, key: null }] : [])];
    const of = (amounts) =>
      all.map((curve) => ({
        name: curve.key === null ? OTHERS : curve.key || "none",
        href: curve.key ? this.link(curve.key) : null,
        values: curve[amounts],
      }));
    const share = capacity.map((gpus, at) => {
      const taken = all.reduce((sum, curve) => sum + curve.used[at] + curve.reserved[at], 0);
      return gpus > 0 ? (100 * taken) / gpus : 0;
    });
    const line = whole ? { name: "GPUs of the cluster", values: capacity } : null;
    this.used.show({ since, step, series: of("used"), line, unit: "" });
    this.share.show({ since, step, series: [{ name: "used and reserved", values: share }], unit: " %" });
    this.waiting.show({ since, step, series: of("waitingGpus"), unit: "" });
    this.gangs.show({ since, step, series: of("waitingGangs"), unit: "" });
  }
}

const slotOf = (name, index) => (name === OTHERS ? OTHER : index);
const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0);

/** Return the points of a line that stays level in each stretch of time. */
const stairs = (values, { x, y }) =>
  values.flatMap((value, at) => [`${x(at)},${y(value)}`, `${x(at + 1)},${y(value)}`]);

/** Return the next number whose half is round. */
function roundUp(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((factor) => factor * size).find((each) => each >= value * 0.999999);
}

/** Draw gangs as bars over a time (milliseconds since 1970): {name, href, from, until, kind}, one lane each. */
export function lanes(bars, from, until) {
  const place = (moment) => `${Math.max(0, Math.min(100, (100 * (moment - from)) / (until - from))).toFixed(2)}%`;
  const width = (bar) =>
    Math.max(0.3, (100 * (Math.min(bar.until, until) - Math.max(bar.from, from))) / (until - from));
  const rows = bars.map(({ name, href, parts }) => {
    const drawn = parts.map((part) => {
      const piece = el("span", { class: part.kind, title: `${part.kind} ${span((part.until - part.from) / 1000)}` });
      piece.style.left = place(part.from);
      piece.style.width = `${width(part).toFixed(2)}%`;
      return piece;
    });
    const words = parts.map((part) => `${part.kind} ${span((part.until - part.from) / 1000)}`).join(", ");
    return el(
      "li",
      {},
      el("span", { class: "lane-name" }, href ? el("a", { href }, name) : name),
      el("span", { class: "lane", role: "img", "aria-label": words || "nothing" }, drawn),
    );
  });
  const ends = el(
    "p",
    { class: "lane-ends dim" },
    el("span", {}, clock(from, until)),
    el("span", {}, clock(until, Date.now())),
  );
  return el("div", { class: "gang-lanes" }, el("ol", { "aria-label": many(bars.length, "gang") }, rows), ends);
}
