// Which part of the picture is on the canvas, and how large. Lengths are in CSS pixels.

export const MARGIN = 8;
const STEP = 1.5;
const MOST_TILE = 420;
/** What is laid out is enlarged by so much at most to fill its place. */
const MOST_FILLING = 1.25;

/** Zoom and place of a picture. `moved` is called when it is another part that is seen. */
export class Viewport {
  constructor(moved) {
    this.moved = moved;
    this.zoom = 1;
    this.x = 0;
    this.y = 0;
    this.width = 0;
    this.height = 0;
    this.plan = null;
    this.least = 1;
  }

  /** Show all of a plan on a canvas of that width, as high as it takes, but not higher than `most`. */
  take(plan, width, most) {
    const inside = (length) => length - 2 * MARGIN;
    Object.assign(this, { plan, width });
    this.least = Math.min(MOST_FILLING, inside(width) / plan.width, inside(most) / plan.height);
    this.height = Math.round(plan.height * this.least) + 2 * MARGIN;
    this.fit();
  }

  get most() {
    return Math.max(this.least, MOST_TILE / this.plan.tile.width);
  }

  get zoomed() {
    return this.zoom > this.least * 1.01;
  }

  fit() {
    this.zoom = this.least;
    this.pan(MARGIN, MARGIN);
  }

  /** Zoom by so many steps, leaving what is at a point of the canvas where it is. */
  zoomBy(steps, point = { x: this.width / 2, y: this.height / 2 }) {
    const zoom = this.hold(this.zoom * STEP ** steps);
    const ratio = zoom / this.zoom;
    this.zoom = zoom;
    this.pan(point.x - (point.x - this.x) * ratio, point.y - (point.y - this.y) * ratio);
  }

  hold(zoom) {
    return Math.max(this.least, Math.min(this.most, zoom));
  }

  /** Put the picture's corner somewhere, without leaving the picture. */
  pan(x, y) {
    this.x = inside(x, this.width, this.plan.width * this.zoom);
    this.y = inside(y, this.height, this.plan.height * this.zoom);
    this.moved();
  }

  /** Move as little as it takes to see a node as a whole. */
  reveal(entry) {
    const { x, y, width, height } = this.tile(entry);
    const nearest = (from, at, length, room) => Math.max(MARGIN - at, Math.min(room - MARGIN - at - length, from));
    this.pan(nearest(this.x, x - this.x, width, this.width), nearest(this.y, y - this.y, height, this.height));
  }

  /** Return where a node is on the canvas. */
  tile(entry) {
    const { tile } = this.plan;
    return {
      x: entry.x * this.zoom + this.x,
      y: entry.y * this.zoom + this.y,
      width: tile.width * this.zoom,
      height: tile.height * this.zoom,
    };
  }

  /** Return which place of the picture is at a point of the canvas. */
  place({ x, y }) {
    return { x: (x - this.x) / this.zoom, y: (y - this.y) / this.zoom };
  }
}

function inside(value, room, length) {
  return Math.max(Math.min(MARGIN, room - MARGIN - length), Math.min(MARGIN, value));
}
