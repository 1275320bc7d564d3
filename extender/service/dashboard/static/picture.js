// Drawing the cluster on a canvas: boxes, nodes and GPUs, in as much detail as their size on the screen bears.

import { HUES, SCALE, slotColour } from "./colours.js";
import { grid } from "./layout.js";
import { colourReader } from "./theme.js";

const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
/** From these sizes on the screen on, in pixels: names in a node, marks on a cell, hatching, gaps between cells. */
const NAMED = { width: 50, height: 36 };
const LABELLED_HEIGHT = 46;
const NAME_HEIGHT = 14;
const MARKED_CELL = 7;
const HATCHED_CELL = 4;
const GAPPED_CELL = 4;
const TITLE_HEIGHT = 11;
const FADED = 0.16;

/** The colours of the present theme, and what is painted with them; those of slots when they are first used. */
export class Paints {
  constructor(context) {
    this.context = context;
    this.solid = new Map();
    this.hatched = new Map();
    const colours = colourReader();
    const read = (name) => colours.read(`var(--${name})`);
    this.ink = read("ink");
    this.dim = read("dim");
    this.panel = read("panel");
    this.paper = read("paper");
    this.box = read("box");
    this.boxLine = read("box-line");
    this.free = read("free");
    this.freeLine = read("free-line");
    this.bad = read("bad");
    this.accent = read("accent");
    this.mark = read("mark");
    colours.done();
  }

  /** Return the colour of a slot. */
  of(slot) {
    if (!this.solid.has(slot)) {
      const colours = colourReader();
      this.solid.set(slot, colours.read(slotColour(slot)));
      colours.done();
    }
    return this.solid.get(slot);
  }

  /** Return the pattern of a slot's reserved GPUs. */
  hatch(slot) {
    if (!this.hatched.has(slot)) this.hatched.set(slot, hatch(this.context, this.of(slot), this.panel));
    return this.hatched.get(slot);
  }
}

function hatch(context, colour, back) {
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const pen = tile.getContext("2d");
  pen.fillStyle = back;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

/**
 * Draw what there is to see.
 *
 * `view` is {zoom, x, y, width, height}: how large, where the picture's corner is on the canvas, and the canvas' size
 * in CSS pixels. `slotOf(node, gang)` is the colour of a GPU, null for that of what is free; `lit(node, gang)` says
 * what is not faded; GPUs of `outlined` have a frame.
 */
export function draw(context, plan, view, paints, { slotOf, lit, focused, outlined }) {
  context.fillStyle = paints.paper;
  context.fillRect(0, 0, view.width, view.height);
  context.font = FONT;
  context.textBaseline = "alphabetic";
  for (const inner of plan.root.boxes) drawBox(context, inner, view, paints);
  const strokes = { cells: new Map(), marks: [], words: [], closed: [], hollow: [], frames: [] };
  for (const entry of plan.placed) {
    const at = onCanvas(entry, plan.tile, view);
    if (!at) continue;
    if (entry.node.tree) collectPlace(entry.node, at, { lit, strokes });
    else collectNode(entry.node, at, { slotOf, lit, strokes, outlined });
  }
  paint(context, strokes, paints);
  if (focused) drawFocus(context, focused, plan.tile, view, paints);
}

/** Return where a tile is on the canvas, with how it is divided; null where none of it is seen. */
function onCanvas(entry, tile, view) {
  const x = Math.round(entry.x * view.zoom + view.x);
  const y = Math.round(entry.y * view.zoom + view.y);
  const width = Math.round(tile.width * view.zoom);
  const height = Math.round(tile.height * view.zoom);
  if (x > view.width || y > view.height || x + width < 0 || y + height < 0) return null;
  return { x, y, width, height, rows: rowsOf(width, height) };
}

function drawBox(context, each, view, paints) {
  const x = Math.round(each.x * view.zoom + view.x);
  const y = Math.round(each.y * view.zoom + view.y);
  const width = Math.round(each.width * view.zoom);
  const height = Math.round(each.height * view.zoom);
  if (x > view.width || y > view.height || x + width < 0 || y + height < 0) return;
  context.fillStyle = paints.box;
  context.strokeStyle = paints.boxLine;
  context.lineWidth = 1;
  context.beginPath();
  context.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, 4);
  context.fill();
  context.stroke();
  if (each.title * view.zoom >= TITLE_HEIGHT) {
    context.fillStyle = paints.dim;
    context.fillText(fitting(context, each.words, width - 7), x + 5, y + Math.min(each.title * view.zoom - 3.5, 14));
  }
  for (const inner of each.boxes) drawBox(context, inner, view, paints);
}

/** Return a text without its middle where it is wider than there is room. */
function fitting(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const keep = Math.floor((room / context.measureText(text).width) * text.length) - 1;
  if (keep < 2) return "";
  const head = Math.ceil(keep / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (keep - head))}`;
}

/** Return how a node of that size is divided: its name above if there is room, its GPUs, and below who holds them. */
export function rowsOf(width, height) {
  const named = width >= NAMED.width && height >= NAMED.height;
  const labelled = named && height >= LABELLED_HEIGHT;
  const top = named ? NAME_HEIGHT : 0;
  return { top, height: height - top - (labelled ? NAME_HEIGHT : 0), named, labelled };
}

/** Sort what a node consists of by how it is painted: changing the pen thousands of times is what costs. */
function collectNode(node, { x, y, width, height, rows }, { slotOf, lit, strokes, outlined }) {
  const { top, height: cellsHeight, named, labelled } = rows;
  const faded = !lit(node, "");
  if (named) strokes.words.push([node.name, x, y + 10, width, faded, true]);
  if (!node.schedulable) strokes.closed.push([x, y + top, width, cellsHeight]);
  if (!node.gpus) {
    strokes.hollow.push([x, y + top, width, cellsHeight]);
    return;
  }
  const boxOf = cellBoxes(node.gpus, { x, y: y + top, width, height: cellsHeight });
  for (let index = 0; index < node.gpus; index += 1) {
    const holder = node.cells[index] ?? "";
    const box = boxOf(index);
    const slot = slotOf(node, holder);
    const reserved = node.reserved[index];
    const kind = slot === null ? "f" : `${reserved ? "r" : "u"}${slot}`;
    put(strokes.cells, (holder ? lit(node, holder) : !faded) ? kind : `${kind}-`, box);
    if (holder && holder === outlined) strokes.frames.push(box);
    if (slot >= HUES && slot < SCALE && !reserved && Math.min(box[2], box[3]) >= MARKED_CELL) {
      strokes.marks.push([Math.floor(slot / HUES), ...box]);
    }
  }
  if (labelled) strokes.words.push([holders(node), x, y + height - 3, width, faded, false]);
}

/** Return what tells where a GPU's cell is, by its number. */
function cellBoxes(gpus, { x, y, width, height }) {
  const shape = grid(gpus);
  const cell = { width: width / shape.columns, height: height / shape.rows };
  const gap = Math.min(cell.width, cell.height) >= GAPPED_CELL ? Math.max(1, Math.round(cell.width / 14)) : 0;
  return (index) => {
    const left = Math.round(x + (index % shape.columns) * cell.width);
    const up = Math.round(y + Math.floor(index / shape.columns) * cell.height);
    const right = Math.round(x + ((index % shape.columns) + 1) * cell.width) - gap;
    const down = Math.round(y + (Math.floor(index / shape.columns) + 1) * cell.height) - gap;
    return [left, up, Math.max(1, right - left), Math.max(1, down - up)];
  };
}

/** Sort the shares of a place by how they are painted: side by side, as wide as they are large. */
function collectPlace(place, { x, y, width, height, rows }, { lit, strokes }) {
  const faded = !place.nodes.some((node) => lit(node, ""));
  const whole = place.shares.reduce((sum, [, share]) => sum + share, 0);
  if (rows.named) strokes.words.push([place.title, x, y + 10, width, faded, true]);
  if (!whole) strokes.hollow.push([x, y + rows.top, width, rows.height]);
  let left = 0;
  for (const [kind, share] of place.shares) {
    const right = left + share / whole;
    const from = Math.round(x + left * width);
    put(strokes.cells, faded ? `${kind}-` : kind, [
      from,
      y + rows.top,
      Math.max(1, Math.round(x + right * width) - from),
      rows.height,
    ]);
    left = right;
  }
  const { gpus, used, reserved } = place.sum;
  if (rows.labelled)
    strokes.words.push([`${gpus - used - reserved} of ${gpus} free`, x, y + height - 3, width, faded, false]);
}

function put(groups, key, item) {
  if (!groups.has(key)) groups.set(key, []);
  groups.get(key).push(item);
}

/** Return who is on a node, in few words. */
function holders(node) {
  const names = [...new Set(node.cells.filter(Boolean))];
  if (!names.length) return node.schedulable ? "free" : "unschedulable";
  const first = names[0].slice(names[0].indexOf("/") + 1);
  return names.length > 1 ? `${first} +${names.length - 1}` : first;
}

function paint(context, strokes, paints) {
  for (const [key, boxes] of strokes.cells) paintCells(context, key, boxes, paints);
  context.globalAlpha = 1;
  context.fillStyle = paints.mark;
  context.beginPath();
  for (const mark of strokes.marks) drawMark(context, mark);
  context.fill();
  context.lineWidth = 2;
  context.strokeStyle = paints.ink;
  context.beginPath();
  for (const [x, y, width, height] of strokes.frames) context.rect(x, y, width, height);
  context.stroke();
  context.lineWidth = 1;
  context.strokeStyle = paints.freeLine;
  context.setLineDash([2, 2]);
  for (const [x, y, width, height] of strokes.hollow) context.strokeRect(x + 0.5, y + 0.5, width - 2, height - 2);
  context.setLineDash([]);
  context.strokeStyle = paints.bad;
  context.beginPath();
  for (const [x, y, width, height] of strokes.closed) {
    context.rect(x - 0.5, y - 0.5, width, height);
    context.moveTo(x, y + height - 1);
    context.lineTo(x + width - 1, y);
  }
  context.lineWidth = 1.5;
  context.stroke();
  for (const [text, x, y, width, faded, strong] of strokes.words) {
    context.globalAlpha = faded ? 0.4 : 1;
    context.fillStyle = strong ? paints.ink : paints.dim;
    context.fillText(fitting(context, text, width - 2), x, y);
  }
  context.globalAlpha = 1;
}

function paintCells(context, key, boxes, paints) {
  const kind = key[0];
  const slot = Number.parseInt(key.slice(1), 10);
  const large = boxes.length && Math.min(boxes[0][2], boxes[0][3]) >= HATCHED_CELL;
  const colour = kind === "f" ? paints.free : paints.of(slot);
  context.globalAlpha = /.-$/.test(key) ? FADED : 1;
  context.fillStyle = kind === "r" && large ? paints.hatch(slot) : colour;
  if (kind === "r" && !large) context.globalAlpha *= 0.5;
  for (const [x, y, width, height] of boxes) context.fillRect(x, y, width, height);
  if (!large || kind === "u") return;
  context.strokeStyle = kind === "f" ? paints.freeLine : colour;
  context.lineWidth = 1;
  context.beginPath();
  for (const [x, y, width, height] of boxes) context.rect(x + 0.5, y + 0.5, width - 1, height - 1);
  context.stroke();
}

/** Draw what tells gangs of one hue apart: a dot, a dash across, a dash down. */
function drawMark(context, [mark, x, y, width, height]) {
  const thick = Math.max(1.5, Math.min(width, height) / 4);
  if (mark === 1) {
    context.moveTo(x + width / 2 + thick, y + height / 2);
    context.arc(x + width / 2, y + height / 2, thick, 0, 2 * Math.PI);
  } else if (mark === 2) context.rect(x + width / 4, y + (height - thick) / 2, width / 2, thick);
  else context.rect(x + (width - thick) / 2, y + height / 5, thick, 0.6 * height);
}

function drawFocus(context, entry, tile, view, paints) {
  context.strokeStyle = paints.panel;
  context.lineWidth = 5;
  const box = [
    Math.round(entry.x * view.zoom + view.x) - 3,
    Math.round(entry.y * view.zoom + view.y) - 3,
    Math.round(tile.width * view.zoom) + 5,
    Math.round(tile.height * view.zoom) + 5,
  ];
  context.strokeRect(...box);
  context.strokeStyle = paints.accent;
  context.lineWidth = 2.5;
  context.strokeRect(...box);
}
