// The page of one gang: how it stands, why, what removed which nodes, who holds what it needs, and what would help.

import { swatch } from "./colours.js";
import { commandList, gangCommands } from "./commands.js";
import { byId, crumbs, el, replace } from "./dom.js";
import { count } from "./format.js";
import { callout, facts, lead, left, memberTable, panel, parts, phase, right } from "./gangparts.js";
import { COLOURED } from "./model.js";
import { pageLink } from "./route.js";
import { reason } from "./stream.js";

/** The page asks again so soon: when the gang changed, when it waits and others may have, when there was no answer. */
const CHANGED_MS = 1_000;
const WAITING_MS = 10_000;
const RETRY_MS = 5_000;
const BACK = ["#/", "All of the cluster"];

/** Shows gangs in `host`, one at a time, and asks again when the model has news of the one shown. */
export class GangPage {
  constructor(host, { model, modes }) {
    Object.assign(this, { host, model, modes });
    this.members = memberTable();
    this.name = "";
    this.row = "";
    this.told = "";
    this.changed = false;
    this.timer = 0;
    this.turn = 0;
  }

  get title() {
    return this.name;
  }

  /** Show a gang, by its namespace and name. */
  open(names) {
    const name = names.join("/");
    if (this.name === name) return;
    this.name = name;
    this.told = "";
    replace(this.host, crumbs(...BACK), heading(name), el("p", { class: "dim" }, "Asking …"));
    byId("gang-title").focus();
    this.ask();
  }

  close() {
    this.name = "";
    this.turn += 1;
    clearTimeout(this.timer);
    replace(this.host);
  }

  /** Ask again soon if the gang changed. */
  update() {
    if (!this.name || this.changed || JSON.stringify(this.model.gangs.get(this.name)) === this.row) return;
    this.changed = true;
    this.later(CHANGED_MS);
  }

  later(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), milliseconds);
  }

  async ask() {
    clearTimeout(this.timer);
    this.turn += 1;
    const { turn } = this;
    const base = `api/v1/gangs/${this.name.split("/").map(encodeURIComponent).join("/")}`;
    this.row = JSON.stringify(this.model.gangs.get(this.name));
    this.changed = false;
    try {
      const answer = await fetch(`${base}/explain?suggestions=true`, { cache: "no-store" });
      const told = answer.ok ? await answer.text() : await reason(answer);
      if (turn !== this.turn) return;
      if (answer.ok) this.take(told, `${base}/picture.svg?remarks=false&${turn}`);
      else this.fail(told);
    } catch {
      if (turn === this.turn) this.fail("the service does not answer");
    }
  }

  /** Show what is told, unless it is what is shown already. */
  take(told, picture) {
    const gang = JSON.parse(told);
    if (told !== this.told) this.show(gang, picture);
    this.told = told;
    if (gang.reason) this.later(WAITING_MS);
  }

  /** Say why there is nothing to show, and try again; what was shown before goes, as it may not hold any more. */
  fail(why) {
    this.told = "";
    const past = el("a", { href: pageLink("history", ...this.name.split("/")) }, "What the history has of it");
    const words = el("p", { class: "notice" }, `${why}; trying again.`);
    replace(this.host, crumbs(...BACK), heading(this.name), words, el("p", {}, past));
    this.later(RETRY_MS);
  }

  show(gang, picture) {
    const name = `${gang.namespace}/${gang.name}`;
    const before = this.position();
    const drawing = this.host.querySelector(".gang-picture") ?? el("img", { class: "gang-picture" });
    drawing.alt = `The cluster with ${name} on it: ${gang.headline}. The nodes of its members are in the table below.`;
    drawing.src = picture;
    const picturePanel = panel(gang.placement ? "Where it is" : "The cluster now", drawing);
    const placed = COLOURED.includes(gang.phase);
    const mark = placed && swatch(this.modes.gang(this.name));
    replace(
      this.host,
      crumbs(...BACK),
      el("div", { class: "gang-head" }, mark, heading(name), phase(gang)),
      lead(gang),
      callout(gang, this.model.now()),
      facts(gang, this.model),
      el(
        "div",
        { class: "gang-grid" },
        el("div", { class: "stack" }, left(gang, this.model)),
        el("div", { class: "stack" }, gang.reason ? right(gang, this.model) : picturePanel),
      ),
      el(
        "div",
        { class: "stack" },
        parts(gang),
        gang.reason ? picturePanel : null,
        panel("What you can do", commandList(gangCommands(name, { waits: !placed, runs: placed }))),
        panel(`Members (${count(gang.pods.length)})`, this.members.frame),
      ),
    );
    this.members.show(gang.pods);
    this.restore(before);
  }

  /** Return where the reader is on the page: what has the focus, and how far the members are scrolled. */
  position() {
    const focused = this.host.contains(document.activeElement) ? document.activeElement : null;
    return { link: focused?.getAttribute("href"), within: focused !== null, top: this.members.frame.scrollTop };
  }

  restore({ link, within, top }) {
    this.members.frame.scrollTop = top;
    if (!within) return;
    const links = [...this.host.querySelectorAll("a")];
    const again = links.find((each) => each.getAttribute("href") === link) ?? byId("gang-title");
    again.focus({ preventScroll: true });
  }
}

function heading(name) {
  return el("h1", { tabindex: "-1", id: "gang-title" }, name);
}
