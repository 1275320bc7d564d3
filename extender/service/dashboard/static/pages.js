// The pages beside the overview; `router.js` says what an entry has.

import { GangPage } from "./gangpage.js";

export const PAGES = [
  { path: "gangs", id: "gang", names: [2], nav: "", make: (host, shared) => new GangPage(host, shared) },
];
