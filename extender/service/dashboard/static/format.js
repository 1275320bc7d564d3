// How numbers, times and names are written.

const SECONDS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DAY_MS = 86_400_000;
const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
// A formatter takes milliseconds to make: each is made when it is needed, which is after the first picture.
const whole = once(() => new Intl.NumberFormat("en", { maximumFractionDigits: 0 }));
const short = once(() => new Intl.NumberFormat("en", { maximumFractionDigits: 1 }));
const timeOfDay = once(() => new Intl.DateTimeFormat(undefined, TIME));
const minutes = once(
  () => new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
);
const days = once(() => new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" }));
const dayAndTime = once(() => new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...TIME }));

function once(make) {
  let made = null;
  return () => {
    made ??= make();
    return made;
  };
}

/** Write a count: 12,000. */
export const count = (value) => whole().format(value);

/** Write a figure with one digit after the point, where that is not 0. */
export const tenths = (value) => short().format(value);

/** Write a time on an axis of hours, as the reader's clock has it; and a day on an axis of days. */
export const minuteOf = (time) => minutes().format(time);
export const dayOf = (time) => days().format(time);

/** Write a count with its noun: `1 node`, `3 nodes`. */
export const many = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Write a span of time in seconds, in its two largest units: `3 min 20 s`. */
export function span(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const first = SECONDS.findIndex(([, size]) => left >= size);
  if (first < 0) return "0 s";
  const words = [];
  for (const [unit, size] of SECONDS.slice(first, first + 2)) {
    const value = Math.floor(left / size);
    left -= value * size;
    if (value) words.push(`${value} ${unit}`);
  }
  return words.join(" ");
}

/** Write a time of day as the reader's clock has it, with the date where it is another day's. */
export function clock(time, now) {
  const at = new Date(time);
  const other = Math.abs(now - at) > DAY_MS || at.getDate() !== new Date(now).getDate();
  return (other ? dayAndTime : timeOfDay)().format(at);
}

/** Write the times within a sentence of the service's as the reader's clock has them. */
export const withClocks = (text, now) =>
  text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)/g, (time) => clock(time, now));

/** Write an amount of a resource: cores of milli-CPU, binary units of bytes, counts as they are. */
export function amount(resource, value) {
  if (resource === "cpu") return short().format(value / 1000);
  if (resource !== "memory" && resource !== "ephemeral-storage" && !resource.startsWith("hugepages-"))
    return count(value);
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < BYTES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${short().format(size)} ${BYTES[unit]}`;
}

/** Write a resource as people call it: GPUs, cores, memory; others by their names. */
export function resourceName(resource) {
  if (isGpu(resource)) return "GPUs";
  return resource === "cpu" ? "cores" : resource;
}

/** Say whether a resource is one of GPUs. */
export const isGpu = (resource) => /(^|\/)gpu$/.test(resource);

/** Write a bandwidth, with as many digits as it means anything with. */
export const gbps = (value) => `${value >= 100 ? whole().format(value) : Number(value.toPrecision(3))} GB/s`;

/** Write milliseconds. */
export function millis(value) {
  if (value === null || value === undefined) return "–";
  return value >= 100 ? `${whole().format(value)} ms` : `${Number(value.toPrecision(2))} ms`;
}

/** Write an expected start, seen at `now`: in how long, or that it is overdue. */
export function expected(start, now) {
  if (!start) return "";
  const seconds = (Date.parse(start.at) - now) / 1000;
  const when = seconds > 0 ? `in ${span(seconds)}` : "any moment";
  const late = start.overdue ? ", overdue" : "";
  return start.waitsFor ? `${when}, after ${start.waitsFor}${late}` : `${when}${late}`;
}

/** Return a domain's name within the one around it: r7 for b0/r7 in b0. */
export const within = (name, around) =>
  around && name.startsWith(`${around}/`) ? name.slice(around.length + 1) : name;

/** Write where something is: `rack r7`, and rack-7 as it is. */
export const domainName = (level, name) => (name.startsWith(level) ? name : `${level} ${name}`);

/** Order names as people do: gpu-9 before gpu-10. */
export const natural = new Intl.Collator("en", { numeric: true }).compare;

/** Return what names are compared by where they are many: a collator takes 200 ms for 15,000, `<` takes 20. */
export const naturalKey = (text) => text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(15, "0"));
