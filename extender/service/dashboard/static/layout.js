// Where nodes and domains go in the picture: boxes in boxes, as large as fits. Lengths are in pixels at zoom 1.

const CELLS = [1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 21, 24, 28];
/** From this size of a cell on, a node has room for its name and its gang's. */
const NAMED_CELL = 14;
const NAME_HEIGHT = 28;
/** A title is so high; less above what is low itself, where it only shows when that is enlarged. */
const TITLE = 15;
const TITLE_SHARE = 0.2;
/** Boxes are about so much wider than high: whatever makes nodes largest, and the first one where that takes long. */
const ASPECTS = [1.9, 1.3, 2.7, 4];
const MANY = 1500;

/** Return how the GPUs of a node are laid out: columns and rows. */
export function grid(gpus) {
  if (gpus <= 2) return { columns: Math.max(gpus, 1), rows: 1 };
  const columns = gpus <= 8 ? Math.ceil(gpus / 2) : Math.ceil(Math.sqrt(2 * gpus));
  return { columns, rows: Math.ceil(gpus / columns) };
}

/** Lay out a tree of domains within a width, as large as the height allows; `most` is the largest number of GPUs. */
export function layout(tree, most, width, height) {
  const shape = grid(most);
  const aspects = size(tree) > MANY ? ASPECTS.slice(0, 1) : ASPECTS;
  let best = { index: -1, height: Infinity, aspect: ASPECTS[0] };
  for (const aspect of aspects) {
    let low = 0;
    let high = CELLS.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (attempt(tree, shape, CELLS[middle], width, aspect).height <= height) low = middle;
      else high = middle - 1;
    }
    const { height: taken } = attempt(tree, shape, CELLS[low], width, aspect);
    if (low > best.index || (low === best.index && taken < best.height)) best = { index: low, height: taken, aspect };
  }
  return attempt(tree, shape, CELLS[best.index], width, best.aspect);
}

function size(tree) {
  return tree.nodes.length + tree.domains.reduce((sum, inner) => sum + size(inner), 0);
}

function attempt(tree, shape, cell, width, aspect) {
  const tile = {
    aspect,
    width: shape.columns * cell,
    height: shape.rows * cell + (cell >= NAMED_CELL ? NAME_HEIGHT : 0),
    titled: cell >= 5,
    gap: cell < 5 ? 1.5 : cell < NAMED_CELL ? 4 : 8,
    edge: cell < 5 ? 2 : cell < NAMED_CELL ? 5 : 9,
  };
  const placed = [];
  const root = box(tree, tile, width, true);
  settle(root, 0, 0, placed);
  return { root, placed, tile, width: root.width, height: root.height };
}

/** Size a box: its nodes in rows, then its inner boxes on shelves; places are relative to its corner. */
function box(tree, tile, most, outer) {
  const edge = outer ? 0 : tile.edge;
  const left = edge;
  let y = 0;
  let right = left;
  const inside = most - 2 * edge;
  const pitch = { x: tile.width + tile.gap, y: tile.height + tile.gap };
  const nodes = [];
  if (tree.nodes.length) {
    const fits = Math.max(1, Math.floor((inside + tile.gap) / pitch.x));
    const square = Math.sqrt((tree.nodes.length * tile.aspect * pitch.y) / pitch.x);
    const columns = outer ? Math.min(fits, tree.nodes.length) : fullRows(tree.nodes.length, square, fits);
    tree.nodes.forEach((node, index) => {
      nodes.push({ node, x: left + (index % columns) * pitch.x, y: y + Math.floor(index / columns) * pitch.y });
    });
    right = left + columns * pitch.x - tile.gap;
    y += Math.ceil(tree.nodes.length / columns) * pitch.y - tile.gap;
  }
  const inner = tree.domains.map((domain) => box(domain, tile, inside, false));
  if (inner.length) {
    if (nodes.length) y += tile.gap;
    const area = inner.reduce((sum, each) => sum + (each.width + tile.gap) * (each.height + tile.gap), 0);
    const widest = Math.max(...inner.map((each) => each.width));
    const room = outer ? inside : Math.min(inside, Math.max(widest, Math.sqrt(area * tile.aspect)));
    const end = shelve(inner, left, y, room, tile.gap);
    right = Math.max(right, end.right);
    y = end.bottom;
  }
  const title = outer ? 0 : Math.max(edge, tile.titled ? TITLE : Math.min(TITLE, y * TITLE_SHARE));
  for (const each of [...nodes, ...inner]) each.y += title;
  const { level, name, title: words } = tree;
  return { level, name, words, title, nodes, boxes: inner, x: 0, y: 0, width: right + edge, height: title + y + edge };
}

/** Return in how many columns so many nodes go, about `square`: those that leave the fewest gaps in the last row. */
function fullRows(nodes, square, most) {
  let best = 1;
  let least = Infinity;
  const last = Math.min(most, nodes, Math.ceil(square * 1.5));
  for (let columns = Math.max(1, Math.min(last, Math.floor(square * 0.7))); columns <= last; columns += 1) {
    const gaps = Math.ceil(nodes / columns) * columns - nodes;
    const cost = gaps / nodes + Math.abs(Math.log(columns / square)) / 4;
    if (cost >= least) continue;
    best = columns;
    least = cost;
  }
  return best;
}

/** Place boxes side by side, going on below where a shelf is full; those on a shelf become equally high. */
function shelve(boxes, left, top, room, gap) {
  let x = left;
  let y = top;
  let right = left;
  let shelf = [];
  const close = () => {
    const tallest = Math.max(...shelf.map((each) => each.height));
    for (const each of shelf) each.height = tallest;
    return tallest;
  };
  for (const each of boxes) {
    if (shelf.length && x + each.width > left + room + 0.5) {
      y += close() + gap;
      x = left;
      shelf = [];
    }
    each.x = x;
    each.y = y;
    shelf.push(each);
    x += each.width + gap;
    right = Math.max(right, x - gap);
  }
  return { right, bottom: y + close() };
}

/** Make places absolute, and list the nodes' in reading order. */
function settle(each, x, y, placed) {
  each.x += x;
  each.y += y;
  for (const entry of each.nodes) {
    entry.x += each.x;
    entry.y += each.y;
    entry.box = each;
    placed.push(entry);
  }
  for (const inner of each.boxes) settle(inner, each.x, each.y, placed);
}
