// Free islands: how large a gang would fit now within one node, rack, block, and how much of what is free lies scattered.

import { bar, replace } from "./dom.js";
import { count, domainName, many } from "./format.js";
import { Table } from "./table.js";

/** It is asked for again so soon, and only if the number of free GPUs is another. */
const PAUSE_MS = 5_000;
const MOST_SIZES = 4;

/** Shows what /api/v1/capacity tells in `host`, and hides `panel` as long as it tells nothing. */
export class Islands {
  constructor({ panel, host, heading }) {
    Object.assign(this, { panel, host, heading });
    this.told = "";
    this.asked = -Infinity;
    this.stamp = "";
    this.table = new Table({
      name: "islands",
      label: "Free islands by level",
      key: (row) => `${row.level} ${row.product}`,
      columns: [
        { id: "level", title: "Within one", head: true, cell: ({ level }) => level },
        {
          id: "product",
          title: "Product",
          kind: "name",
          sort: (row) => row.product,
          cell: ({ product }) => product ?? "–",
        },
        {
          id: "largest",
          title: "Fits now",
          kind: "number",
          hint: "GPUs of the largest gang that would fit by GPUs alone",
          sort: (row) => row.largest.freeGpus,
          cell: ({ largest }) => count(largest.freeGpus),
        },
        { id: "where", title: "Where", kind: "name", cell: where },
        {
          id: "scattered",
          title: "Scattered",
          kind: "share",
          hint: "share of the free GPUs that lie outside of the largest island",
          sort: scattered,
          cell: (row) => [percent(scattered(row)), bar([["gone", scattered(row)]], 1, "slim")],
        },
        { id: "islands", title: "Islands (free GPUs × how many)", kind: "words", cell: sizes },
      ],
    });
  }

  /** Ask again if the free GPUs of the model are others. */
  update(model) {
    const stamp = JSON.stringify([model.status?.gpus, model.structure]);
    const now = performance.now();
    if (stamp === this.stamp || now - this.asked < PAUSE_MS) return;
    Object.assign(this, { stamp, asked: now });
    this.ask();
  }

  async ask() {
    try {
      const answer = await fetch("api/v1/capacity", { cache: "no-store" });
      if (answer.ok) this.show(await answer.json());
      else this.stamp = "";
    } catch {
      this.stamp = ""; // the stream says that the service is away
    }
  }

  show({ levels, gangs }) {
    this.panel.hidden = !levels.length;
    if (!this.table.frame.isConnected) replace(this.host, this.table.frame);
    const pods = gangs
      .filter((each) => each.pods)
      .map((each) => `${count(each.pods)} of ${many(each.gpusPerPod, "GPU")}`);
    this.heading.textContent = pods.length ? `room for pods: ${pods.join(", or ")}` : "no GPU is free";
    this.table.show(levels);
  }
}

const free = ({ islands }) => islands.reduce((sum, { freeGpus, domains }) => sum + freeGpus * domains, 0);

const scattered = (row) => (free(row) ? 1 - row.largest.freeGpus / free(row) : 0);

const percent = (share) => `${Math.round(100 * share)} %`;

function where({ level, largest }) {
  if (!largest.freeGpus || !largest.domain) return "–";
  return level === "node" ? largest.domain : domainName(level, largest.domain);
}

function sizes({ islands }) {
  const some = islands.filter((each) => each.freeGpus);
  const words = some.slice(0, MOST_SIZES).map((each) => `${count(each.freeGpus)} × ${count(each.domains)}`);
  if (!words.length) return "none free";
  return words.join(", ") + (some.length > MOST_SIZES ? ` and ${count(some.length - MOST_SIZES)} smaller sizes` : "");
}
