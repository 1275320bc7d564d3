// The pages beside the overview; `router.js` says what an entry has.

import { GangPage } from "./gangpage.js";
import { HistoryPage, PastGangPage } from "./historypage.js";
import { NodeList, NodePage } from "./nodepage.js";
import { PayerList, PayerPage } from "./payerpage.js";

export const PAGES = [
  { path: "gangs", id: "gang", names: [2], nav: "", make: (host, shared) => new GangPage(host, shared) },
  ...["queues", "teams", "users"].flatMap((path) => listed(path, PayerList, PayerPage)),
  ...listed("nodes", NodeList, NodePage),
  ...listed("history", HistoryPage, PastGangPage, 2),
];

/** Return the pages of a list and of one thing in it, called by so many `names`. */
function listed(path, List, One, names = 1) {
  const nav = path[0].toUpperCase() + path.slice(1);
  return [
    { path, id: `${path}-list`, names: [0], nav, make: (host, shared) => new List(host, shared, path) },
    { path, id: `${path}-one`, names: [names], nav: "", make: (host, shared) => new One(host, shared, path) },
  ];
}
