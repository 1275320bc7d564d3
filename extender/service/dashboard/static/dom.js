// Making elements. Whatever comes from the cluster becomes text, never markup: there is no other way in here.

const SVG = "http://www.w3.org/2000/svg";

/** Return the element of the page with an id. */
export const byId = (id) => document.getElementById(id);

/** Make an element with attributes; those called on… listen to events. */
export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/** Return children that are there: conditions leave null or false in place of some. */
function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put children in place of those that are there. */
export function replace(element, ...children) {
  element.replaceChildren(...present(children));
}

/** Return the way back from a page. */
export function crumbs(href, words) {
  return el("nav", { class: "crumbs", "aria-label": "Back" }, el("a", { href }, `← ${words}`));
}

/** Fill the place of a page: the way back, if any, its title, which gets the focus, what is beside that, and the rest. */
export function showPage(host, { back, title, beside }, ...rest) {
  const heading = el("h1", { tabindex: "-1" }, title);
  replace(host, back && crumbs(...back), el("div", { class: "gang-head" }, heading, beside), rest);
  heading.focus();
}

/** Set an element's text where it is another one: what has not changed is not read out again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Change what is in an element; what had the focus in it, by its number, has it again. */
export function keepFocus(element, change) {
  const goals = () => [...element.querySelectorAll("a, summary, button")];
  const focused = goals().indexOf(document.activeElement);
  change();
  if (focused >= 0) goals()[focused]?.focus({ preventScroll: true });
}

/**
 * Make the children of `parent` those of `items`, in order, keeping the element of each key: what is focused stays so.
 * `refill(element, item)` is called where `stamp(item)` is another than before.
 */
export function keyed(parent, items, { key, make, refill, stamp }) {
  const held = parent.keyedChildren ?? new Map();
  const next = new Map();
  let at = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    if (next.has(name)) continue;
    const child = held.get(name) ?? { element: make(item), stamp: undefined };
    const now = stamp(item);
    if (child.stamp !== now) {
      keepFocus(child.element, () => refill(child.element, item));
      child.stamp = now;
    }
    next.set(name, child);
    if (at === child.element) at = at.nextSibling;
    else parent.insertBefore(child.element, at);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
  parent.keyedChildren = next;
}

/** Make the head of a table: `titles` are [text, class] of each column, the class where it has one. */
export function tableHead(titles) {
  const cells = titles.map(([title, kind, hint]) =>
    title ? el("th", { scope: "col", class: kind, title: hint }, title) : el("td"),
  );
  return el("thead", {}, el("tr", {}, cells));
}

/** Make a bar of shares: `parts` are [class, amount] side by side, of `whole`. Its words stand elsewhere. */
export function bar(parts, whole, kind = "") {
  const spans = parts.map(([name, amount]) => {
    const span = el("span", { class: name });
    span.style.width = `${whole > 0 ? Math.max(0, Math.min(100, (100 * amount) / whole)) : 0}%`;
    return span;
  });
  return el("div", { class: `bar ${kind}`, "aria-hidden": "true" }, spans);
}
