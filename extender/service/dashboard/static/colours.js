// Which colour and mark a gang, a queue or a product has: by its name, and another where that is taken.

import { el } from "./dom.js";

/** The first eight hues are those of the style sheet, told apart by who sees fewer colours; the others are many. */
const CHOSEN = 8;
const ANGLES = 20;
export const HUES = CHOSEN + 2 * ANGLES;
export const MARKS = 4;
/** Steps of the scale from few to many, after the hues and their marks; what is no gang's has none of them. */
export const STEPS = 6;
export const SCALE = HUES * MARKS;
export const OTHER = -1;

const GOLDEN_ANGLE = 137.5;
/** Lightness of the two rings of further hues, light and dark; they lie on both sides of the chosen ones'. */
const RINGS = [
  [0.44, 0.58],
  [0.68, 0.84],
];

/** Return a hue as CSS, for both themes. */
export function hueColour(hue) {
  if (hue < CHOSEN) return `var(--gang-${hue})`;
  const angle = Math.round(((hue - CHOSEN) % ANGLES) * GOLDEN_ANGLE) % 360;
  const [light, dark] = RINGS[Math.floor((hue - CHOSEN) / ANGLES)];
  return `light-dark(oklch(${light} 0.14 ${angle}), oklch(${dark} 0.12 ${angle}))`;
}

/** Return a step of the scale as CSS: the larger, the more it stands out in both themes. */
export const stepColour = (step) =>
  `color-mix(in oklab, var(--scale) ${Math.round((100 * (step + 0.6)) / (STEPS - 0.4))}%, var(--free))`;

/** Return a slot's colour as CSS. */
export function slotColour(slot) {
  if (slot === OTHER) return "var(--dim)";
  return slot >= SCALE ? stepColour(slot - SCALE) : hueColour(slot % HUES);
}

/** Make the swatch of a slot, with its mark; `kind` is a further class. */
export function swatch(slot, kind = "") {
  const mark = slot >= 0 && slot < SCALE ? Math.floor(slot / HUES) : 0;
  const element = el("i", { class: ["swatch", mark && `mark-${mark}`, kind].filter(Boolean).join(" ") });
  element.style.setProperty("--gang", slotColour(slot));
  return element;
}

/** Hash a name, the same everywhere and always (FNV-1a). */
function hash(name) {
  let value = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    value = Math.imul(value ^ name.charCodeAt(index), 0x01000193);
  }
  return value >>> 0;
}

/** Hands out slots, hue + HUES * mark, to names. A name keeps what it got as long as it is there. */
export class Colours {
  constructor() {
    this.given = new Map();
    this.taken = new Set();
  }

  /** Give back what names had that are gone; give the others theirs, in this order. */
  settle(names) {
    const present = new Set(names);
    for (const [name, slot] of this.given) {
      if (present.has(name)) continue;
      this.given.delete(name);
      this.taken.delete(slot);
    }
    for (const name of present) this.of(name);
  }

  /** Return the slot of a name: first among the chosen hues from that of its name on, then the further ones, then marks. */
  of(name) {
    let slot = this.given.get(name);
    if (slot !== undefined) return slot;
    slot = this.free(hash(name));
    this.given.set(name, slot);
    this.taken.add(slot);
    return slot;
  }

  free(start) {
    if (this.taken.size >= SCALE) return start % SCALE;
    for (const [first, size] of ROUNDS) {
      for (let step = 0; step < size; step += 1) {
        const slot = first + ((start + step) % size);
        if (!this.taken.has(slot)) return slot;
      }
    }
    return start % SCALE;
  }
}

/** Where slots are looked for: [first, how many], one after the other. */
const ROUNDS = [
  [0, CHOSEN],
  ...Array.from({ length: MARKS }, (_, mark) => [mark ? mark * HUES : CHOSEN, mark ? HUES : HUES - CHOSEN]),
];
