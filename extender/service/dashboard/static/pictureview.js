// The picture as a part of the page: it fits its place, follows pointer and keys, and says what is pointed at.

import { el, replace, say } from "./dom.js";
import { count, many } from "./format.js";
import { CROWD, pathTo, places } from "./heat.js";
import { grid, layout } from "./layout.js";
import { nodesOf } from "./model.js";
import { draw, Paints, rowsOf } from "./picture.js";
import { domainWords, nodesIn, nodeWords, tipWords } from "./pointed.js";
import { see, seen } from "./route.js";
import { MARGIN, Viewport } from "./viewport.js";

const DRAG_PIXELS = 4;
const TURNS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * The picture of the cluster. `open(gang)` shows a gang's page; `lit(node, holder)` says what the filter keeps;
 * `changed()` is called when another part of the cluster is shown.
 */
export class PictureView {
  constructor({ canvas, host, empty, pointed, trail, tip }, { model, modes, open, lit, changed }) {
    Object.assign(this, { canvas, host, empty, pointed, trail, tip, model, modes, open, lit, changed });
    this.at = "";
    this.path = [];
    this.context = canvas.getContext("2d");
    this.viewport = new Viewport(() => this.moved());
    this.plan = null;
    this.structure = -1; // that is laid out
    this.grown = -1; // that the tree is of
    this.focused = null;
    this.hovered = null;
    this.lifted = "";
    new ResizeObserver(() => this.resized()).observe(host);
    canvas.addEventListener("pointermove", (event) => this.pointer(event));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("pointerdown", (event) => this.pressed(event));
    canvas.addEventListener("click", (event) => this.clicked(event));
    canvas.addEventListener("dblclick", (event) => this.viewport.zoomBy(2, at(event)));
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener(
      "focus",
      () => canvas.matches(":focus-visible") && this.focus(this.focused?.node.name ?? ""),
    );
    canvas.addEventListener("blur", () => this.redraw());
  }

  /** Take in what the model says now. */
  update() {
    const { model } = this;
    say(this.empty, model.nodes.size ? "" : "No nodes yet.");
    this.empty.hidden = model.nodes.size > 0;
    this.canvas.hidden = !model.nodes.size;
    if (this.structure !== model.structure || !this.plan || this.at !== seen("at")) this.relayout();
    this.refresh();
    const { gpus, nodes } = model.status ?? {};
    if (gpus) {
      const used = `${count(gpus.used)} of ${count(gpus.allocatable)} GPUs used`;
      const rest = `${count(gpus.reserved)} reserved, ${count(gpus.free)} free`;
      this.canvas.setAttribute("aria-label", `Cluster: ${many(nodes.total, "node")}, ${used}, ${rest}`);
    }
    this.tell();
    this.draw();
  }

  resized() {
    const { clientWidth } = this.host;
    if (this.model.loaded && clientWidth && clientWidth !== this.viewport.width) this.relayout();
  }

  relayout() {
    const width = this.host.clientWidth;
    if (!width) return;
    const tree = this.tree();
    this.structure = this.model.structure;
    this.at = seen("at");
    const path = pathTo(tree, this.at);
    this.path = path.length ? path : [tree];
    const top = this.path.at(-1);
    const shown = this.modes.crowded(nodesOf(top).length > CROWD) ? places(top) : top;
    const most = nodesOf(shown).reduce((sum, node) => Math.max(sum, node.gpus), 1);
    const room = Math.max(260, Math.min(1400, Math.round(innerHeight * 0.6)));
    this.plan = layout(shown, most, width - 2 * MARGIN, room - 2 * MARGIN);
    const ratio = devicePixelRatio || 1;
    this.viewport.take(this.plan, width, room);
    const { height } = this.viewport;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.byName = new Map(this.plan.placed.map((entry) => [entry.node.name, entry]));
    this.focused = this.focused && (this.byName.get(this.focused.node.name) ?? null);
    this.hovered = null;
    this.refresh();
    this.showTrail();
  }

  /** Return the tree of all nodes, made again when some came, went or moved. */
  tree() {
    if (this.grown !== this.model.structure) this.whole = this.model.tree();
    this.grown = this.model.structure;
    return this.whole;
  }

  /** Take in what nodes hold now. */
  refresh() {
    for (const entry of this.plan?.placed ?? []) {
      if (entry.node.tree) entry.node.refresh(this.model, this.modes);
      else entry.node = this.model.nodes.get(entry.node.name) ?? entry.node;
    }
  }

  /** Show a domain alone, or all of the cluster for the root of the tree. */
  drill({ level, name }) {
    see("at", name ? `${level}:${name}` : "");
    this.focused = null;
    this.update();
    this.changed();
  }

  /** Say above the picture which domain it shows, with those around it as a way back. */
  showTrail() {
    const steps = this.path.map((domain, index) => {
      const words = index ? domain.title : "All of the cluster";
      if (index === this.path.length - 1) return el("b", { "aria-current": "location" }, words);
      return el("button", { type: "button", class: "link", onclick: () => this.drill(domain) }, words);
    });
    this.trail.hidden = steps.length < 2;
    replace(
      this.trail,
      steps.flatMap((step, index) => (index ? [" › ", step] : [step])),
    );
  }

  /** Use the colours of the present theme. */
  recolour() {
    this.paints = null;
    this.redraw();
  }

  /** Show the GPUs of one gang among all; of none for "". */
  lift(gang) {
    if (this.lifted === gang) return;
    this.lifted = gang;
    this.redraw();
  }

  moved() {
    this.host.classList.toggle("zoomed", this.viewport.zoomed);
    this.redraw();
  }

  redraw() {
    if (this.drawing || !this.plan) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.draw();
    });
  }

  draw() {
    if (!this.plan) return;
    this.paints ??= new Paints(this.context);
    const lifts = this.model.gangs.has(this.lifted);
    draw(this.context, this.plan, this.viewport, this.paints, {
      slotOf: (node, holder) => this.modes.slot(node, holder),
      outlined: this.hovered?.entry?.node.cells?.[this.hovered.gpu] ?? "",
      lit: (node, holder) => (lifts ? holder === this.lifted : this.lit(node, holder)),
      focused: document.activeElement === this.canvas ? this.focused : null,
    });
    if (!this.canvas.dataset.drawn) performance.mark("first-picture");
    this.canvas.dataset.drawn = String(this.model.seq);
  }

  // --------------------------------------------------------------------------------------------------------- pointer

  /** Return what is at a point of the canvas: its box, node and GPU, each where there is one. */
  hit(point) {
    if (!this.plan) return null;
    const { plan } = this;
    const place = this.viewport.place(point);
    let found = plan.root;
    for (let next = found; next; next = found.boxes.find((each) => within(place, each))) found = next;
    const entry = found.nodes.find(({ x, y }) => within(place, { x, y, ...plan.tile }));
    return { box: found === plan.root ? null : found, entry, gpu: entry ? this.gpuAt(entry, point) : -1 };
  }

  gpuAt(entry, point) {
    const { gpus } = entry.node;
    if (entry.node.tree) return -1;
    const tile = this.viewport.tile(entry);
    const { top, height } = rowsOf(tile.width, tile.height);
    const shape = grid(gpus);
    const column = Math.floor(((point.x - tile.x) / tile.width) * shape.columns);
    const row = Math.floor(((point.y - tile.y - top) / height) * shape.rows);
    const index = row * shape.columns + column;
    return row >= 0 && row < shape.rows && index < gpus ? index : -1;
  }

  pointer(event) {
    if (!this.dragging) this.hover(this.hit(at(event)), at(event));
  }

  hover(hit, point) {
    const before = this.held();
    this.hovered = hit;
    const gang = this.held();
    const leads = this.model.gangs.has(gang) || hit?.entry?.node.tree || (hit?.box && !hit.entry);
    this.canvas.style.cursor = leads ? "pointer" : "";
    if (gang !== before) this.redraw();
    this.hint(hit?.entry ? hit : null, point);
    this.tell();
  }

  /** Return who holds the GPU that is pointed at. */
  held() {
    return this.hovered?.entry?.node.cells?.[this.hovered.gpu] ?? "";
  }

  /** Say beside the pointer what it is on. */
  hint(hit, point) {
    this.tip.hidden = !hit;
    if (!hit) return;
    replace(this.tip, tipWords(hit, this.model));
    const room = this.host.clientWidth - this.tip.offsetWidth - 6;
    this.tip.style.left = `${Math.max(6, Math.min(point.x + 14, room))}px`;
    const below = point.y + 18;
    const above = point.y - this.tip.offsetHeight - 10;
    this.tip.style.top = `${below + this.tip.offsetHeight > this.host.clientHeight && above > 0 ? above : below}px`;
  }

  /** Begin to drag the picture, where there is more of it than is seen. */
  pressed(event) {
    this.dragged = false;
    if (event.button !== 0 || !this.viewport.zoomed) return;
    const { x, y } = this.viewport;
    const controller = new AbortController();
    const { signal } = controller;
    this.dragging = true;
    const drag = (move) => {
      const by = { x: move.clientX - event.clientX, y: move.clientY - event.clientY };
      this.dragged ||= Math.hypot(by.x, by.y) > DRAG_PIXELS;
      if (this.dragged) this.viewport.pan(x + by.x, y + by.y);
    };
    const stop = () => {
      this.dragging = false;
      controller.abort();
    };
    addEventListener("pointermove", drag, { signal });
    addEventListener("pointerup", stop, { signal });
    addEventListener("pointercancel", stop, { signal });
  }

  clicked(event) {
    const hit = this.dragged ? null : this.hit(at(event));
    if (!hit) return;
    const { node } = hit.entry ?? {};
    const gang = node?.cells?.[hit.gpu] ?? "";
    if (node?.tree) this.drill(node);
    else if (this.model.gangs.has(gang)) this.open(gang);
    else if (node) this.focus(node.name);
    else if (hit.box) this.drill(hit.box);
  }

  wheeled(event) {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    this.viewport.zoomBy(-event.deltaY / 120, at(event));
  }

  // ------------------------------------------------------------------------------------------------------------ keys

  key(event) {
    if (!this.plan || event.altKey || event.ctrlKey || event.metaKey) return;
    if (TURNS[event.key]) this.step(...TURNS[event.key]);
    else if (event.key === "Home") this.focus(this.plan.placed[0]?.node.name);
    else if (event.key === "End") this.focus(this.plan.placed.at(-1)?.node.name);
    else if (event.key === "+" || event.key === "=") this.zoom(1);
    else if (event.key === "-") this.zoom(-1);
    else if (event.key === "0") this.viewport.fit();
    else if (event.key === "Enter" && this.focused) this.enter();
    else if (event.key === "Escape" && (this.focused || this.path.length > 1)) this.leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Zoom by so many steps about the node in focus; in the end it is seen. */
  zoom(steps) {
    const tile = this.focused && this.viewport.tile(this.focused);
    this.viewport.zoomBy(steps, tile ? { x: tile.x + tile.width / 2, y: tile.y + tile.height / 2 } : undefined);
    if (this.focused) this.viewport.reveal(this.focused);
  }

  /** Leave the node in focus; without one, the domain that is shown alone. */
  leave() {
    if (!this.focused && this.path.length > 1) this.drill(this.path.at(-2));
    this.focused = null;
    this.tell();
    this.redraw();
  }

  /** Go to the gang of the node in focus, where there are several to the first of their links; open a place. */
  enter() {
    if (this.focused.node.tree) {
      this.drill(this.focused.node);
      this.focus("");
      return;
    }
    const links = this.pointed.querySelectorAll("a");
    if (links.length === 1) links[0].click();
    else links[0]?.focus();
  }

  /** Move the focus to the nearest node in a direction. */
  step(right, down) {
    const from = this.focused;
    let best = from ? null : this.plan.placed[0];
    let least = Infinity;
    for (const entry of from ? this.plan.placed : []) {
      const ahead = (entry.x - from.x) * right + (entry.y - from.y) * down;
      const aside = Math.abs((entry.x - from.x) * down) + Math.abs((entry.y - from.y) * right);
      if (ahead < 1 || ahead + 4 * aside >= least) continue;
      best = entry;
      least = ahead + 4 * aside;
    }
    if (best) this.focus(best.node.name);
  }

  /** Focus a node, the first one for "", and move it into view. */
  focus(name) {
    const entry = name === "" ? this.plan?.placed[0] : this.byName?.get(name);
    if (!entry) return;
    this.focused = entry;
    this.hovered = null;
    this.viewport.reveal(entry);
    this.tell();
  }

  /** Say below the picture what is pointed at, or in focus. */
  tell() {
    const { hovered } = this;
    const node = hovered?.entry?.node ?? (hovered?.box ? null : this.focused?.node);
    const box = node?.tree ? node : node ? null : hovered?.box;
    const gpu = hovered?.entry ? hovered.gpu : -1;
    const about = JSON.stringify(box ? [box.level, box.name, this.model.seq] : node ? [node, gpu] : null);
    const live = this.canvas.matches(":focus-visible") ? "polite" : "off";
    if (this.pointed.getAttribute("aria-live") !== live) this.pointed.setAttribute("aria-live", live);
    if (this.told === about) return;
    this.told = about;
    if (box) replace(this.pointed, domainWords(box, box.tree ? box.nodes : nodesIn(box)));
    else if (node) replace(this.pointed, nodeWords(node, gpu, this));
    else replace(this.pointed, el("span", {}, this.help()));
  }

  help() {
    const what = this.plan?.placed.some(({ node }) => node.tree) ? "A click opens a part of the cluster. " : "";
    return `${what}Point at a node, or focus the picture and use the arrow keys.`;
  }
}

const at = (event) => ({ x: event.offsetX, y: event.offsetY });

function within({ x, y }, each) {
  return x >= each.x && x < each.x + each.width && y >= each.y && y < each.y + each.height;
}
