// Which page the address asks for: the overview, or one of those of `pages.js`, in an element of its own.

import { el, replace } from "./dom.js";
import { pageLink, pathOf } from "./route.js";

/**
 * Shows one page at a time.
 *
 * A page is {path, id, names, nav, make}: it is at `#/path/…` with as many names after it as `names` lists, has an
 * element with that `id`, and a link called `nav` in the header where it has one. `make(host, shared)` returns what
 * shows it: `open(names)` when the address leads there, `update()` when the model or the filter changed while it is
 * shown, `close()` when the reader leaves it, and `title`, which the window is called after.
 */
export class Router {
  constructor({ overview, nav, pages, shared }) {
    Object.assign(this, { overview, nav, pages, shared });
    this.made = new Map();
    this.shown = null;
    this.hash = "";
    this.home = "#/";
    this.missing = el("article", { id: "missing", hidden: true });
    overview.after(this.missing);
    const named = [{ path: "", nav: "Overview" }, ...pages].filter((page) => page.nav);
    this.links = named.map((page) => [page.path, el("a", { href: pageLink(page.path) }, page.nav)]);
    nav.hidden = this.links.length < 2;
    replace(
      nav,
      this.links.map(([, link]) => link),
    );
  }

  /** Go where the address leads. */
  go() {
    if (!this.shown && !pathOf(this.hash).length) this.home = this.hash || "#/";
    this.hash = location.hash;
    const [path = "", ...names] = pathOf(location.hash);
    const page = this.pages.find((each) => each.path === path && each.names.includes(names.length));
    const next = page ? this.get(page) : null;
    if (this.shown && this.shown !== next) this.shown.close();
    for (const [page, { host }] of this.made) host.hidden = page.path !== path || this.made.get(page) !== next;
    this.shown = next;
    this.overview.hidden = path !== "";
    this.missing.hidden = path === "" || next !== null;
    if (!this.missing.hidden) this.miss(path, names);
    for (const [name, link] of this.links) {
      if (name === path) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    next?.open(names);
    document.title = next?.title ? `${next.title} · Muster` : "Muster";
  }

  /** Return whether the overview is what is shown. */
  get isHome() {
    return !this.overview.hidden;
  }

  /** Bring the page that is shown up to date. */
  update() {
    this.shown?.update();
  }

  get(page) {
    if (!this.made.has(page)) {
      const host = el("article", { id: page.id });
      this.overview.after(host);
      const view = page.make(host, this.shared);
      this.made.set(page, Object.assign(view, { host }));
    }
    return this.made.get(page);
  }

  miss(path, names) {
    const asked = [path, ...names].join("/");
    replace(
      this.missing,
      el("h1", {}, "No such page"),
      el("p", {}, `There is nothing at ${asked}. `, el("a", { href: "#/" }, "Go to the overview.")),
    );
  }
}
