// Which colour and mark a gang has: by its name, and another one where that is taken and others are free.

export const HUES = 8;
export const MARKS = 4;

/** Hash a name, the same everywhere and always (FNV-1a). */
function hash(name) {
  let value = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    value = Math.imul(value ^ name.charCodeAt(index), 0x01000193);
  }
  return value >>> 0;
}

/** Hands out hues and marks to gangs. A gang keeps what it got as long as it is there. */
export class Colours {
  constructor() {
    this.given = new Map();
    this.taken = new Set();
  }

  /** Give back what gangs had that are gone; give the others theirs, in this order. */
  settle(names) {
    const present = new Set(names);
    for (const [name, slot] of this.given) {
      if (present.has(name)) continue;
      this.given.delete(name);
      this.taken.delete(slot);
    }
    for (const name of names) this.of(name);
  }

  /** Return the slot of a gang: hue + HUES * mark. The hue of its name comes first, then its neighbours, then marks. */
  of(name) {
    let slot = this.given.get(name);
    if (slot !== undefined) return slot;
    const start = hash(name);
    slot = start % (HUES * MARKS);
    for (let step = 0; step < HUES * MARKS; step += 1) {
      const free = ((start + step) % HUES) + HUES * Math.floor(step / HUES);
      if (this.taken.has(free)) continue;
      slot = free;
      break;
    }
    this.given.set(name, slot);
    this.taken.add(slot);
    return slot;
  }

  /** Return the classes of a gang's swatch. */
  classes(name) {
    const slot = this.of(name);
    return `swatch hue-${slot % HUES} mark-${Math.floor(slot / HUES)}`;
  }
}
