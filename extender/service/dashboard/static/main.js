// The page: the stream feeds the model, and what shows the model is told when it changes.

import { Colours } from "./colours.js";
import { byId, el, replace, say } from "./dom.js";
import { DomainTable } from "./domains.js";
import { Filter } from "./filter.js";
import { count } from "./format.js";
import { PlacedTable, WaitingTable } from "./gangs.js";
import { startKeys } from "./keys.js";
import { showLatency } from "./latency.js";
import { COLOURED, gangKey, Model } from "./model.js";
import { PAGES } from "./pages.js";
import { PictureView } from "./pictureview.js";
import { showQueues } from "./queues.js";
import { gangLink, pathOf } from "./route.js";
import { Router } from "./router.js";
import { Spoken, showStatus } from "./status.js";
import { Stream } from "./stream.js";
import { startTheme } from "./theme.js";
import { showTimeline } from "./timeline.js";

const TICK_MS = 1_000;

const model = new Model();
const colours = new Colours();
const filter = new Filter(byId("filter"), () => show());
const picture = new PictureView(
  {
    canvas: byId("canvas"),
    host: byId("picture"),
    columns: byId("columns"),
    empty: byId("picture-empty"),
    pointed: byId("pointed"),
  },
  {
    model,
    colours,
    open: (name) => {
      location.hash = gangLink(name);
    },
    lit: (node, holder) => filter.lit(node, holder),
  },
);
const hooks = { colours, point: (name) => picture.lift(name) };
const waiting = new WaitingTable(byId("waiting"), byId("waiting-count"), hooks);
const placed = new PlacedTable(byId("running"), byId("running-count"), hooks);
const domains = new DomainTable(byId("domains"), byId("domains-table"));
const router = new Router({
  overview: byId("overview"),
  nav: byId("pages"),
  pages: PAGES,
  shared: { model, colours, filter },
});
const spoken = new Spoken(byId("spoken"));
let due = false;
let pictured = false;
let version = "";

/** Show what the model says, once for all that came since the last picture on the screen. */
function show() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    if (model.loaded) update();
  });
}

function update() {
  filter.refresh(model);
  say(byId("filter-found"), filter.on ? `${count(filter.gangs.size)} of ${count(model.gangs.size)} gangs` : "");
  router.update();
  if (!router.isHome) return;
  showStatus(byId("status"), model);
  picture.update();
  if (pictured) words();
  else setTimeout(words); // the first picture is on the screen before the tables are made
  pictured = true;
}

function words() {
  showQueues(byId("queues"), byId("queues-legend"), model, filter);
  tick();
  showLatency(byId("latency"), byId("recording"), model);
  domains.update(model, filter);
}

/** Show what changes as time goes by. */
function tick() {
  if (!model.loaded || !router.isHome || document.hidden) return;
  showStatus(byId("status"), model);
  waiting.update(model, filter);
  placed.update(model, filter);
  showTimeline({ lanes: byId("timeline"), list: byId("events"), heading: byId("timeline-span") }, model, filter);
}

function told(kind, data) {
  if (kind === "board") model.load(data);
  else if (kind === "change") model.change(data);
  else return;
  const coloured = model.placed().filter((row) => COLOURED.includes(row.phase));
  colours.settle(coloured.map(gangKey));
  const { status } = model;
  if (status) {
    const role = byId("role");
    role.hidden = false;
    say(role, status.ready ? (status.leading ? "leading" : "standby") : `not ready: ${status.unready.join("; ")}`);
    role.className = `badge ${status.ready ? (status.leading ? "good" : "") : "bad"}`;
    say(byId("version"), `Muster ${status.version}`);
    if (version && version !== status.version)
      notify(`Muster is now ${status.version}; load the page again to have its dashboard.`);
    version = status.version;
  }
  spoken.update(model);
  show();
}

function turned(state, why) {
  const badge = byId("connection");
  const [text, kind] = {
    live: ["live", "good"],
    refused: ["refused, retrying", "warn"],
    lost: ["connection lost, retrying", "bad"],
  }[state];
  say(badge, text);
  badge.className = `badge ${kind}`;
  if (state === "live") {
    if (byId("notice").dataset.about === "connection") notify("");
    return;
  }
  const stale = model.loaded ? " What is shown is what was told last." : "";
  const what = state === "lost" ? "Connection lost" : "The service answers, but does not tell how the cluster stands";
  notify(`${what}: ${why}. Retrying.${stale}`, "connection");
}

function notify(text, about = "") {
  const notice = byId("notice");
  notice.dataset.about = about;
  notice.hidden = !text;
  say(notice, text);
}

function navigate() {
  const before = pathOf(router.hash);
  const same = before.join("/") === pathOf(location.hash).join("/");
  picture.lift("");
  filter.follow();
  router.go();
  show();
  if (same) return;
  if (!router.isHome) scrollTo(0, 0);
  else document.querySelector(`[data-gang="${CSS.escape(before.slice(1).join("/"))}"] a`)?.focus();
}

function legend() {
  const entries = [
    ["swatch free", "free"],
    ["swatch hue-0", "used, a colour for each gang"],
    ["swatch reserved hue-0", "reserved"],
    ["swatch closed", "unschedulable"],
  ];
  replace(
    byId("legend"),
    entries.map(([kind, text]) => el("span", {}, el("i", { class: kind }), text)),
  );
}

legend();
startTheme(byId("theme"), () => picture.recolour());
startKeys({
  filter: byId("filter"),
  canvas: byId("canvas"),
  waiting: byId("waiting"),
  main: byId("main"),
  skip: byId("skip"),
});
byId("zoom-in").addEventListener("click", () => picture.zoom(1));
byId("zoom-out").addEventListener("click", () => picture.zoom(-1));
byId("zoom-fit").addEventListener("click", () => picture.viewport.fit());
byId("domains").addEventListener("toggle", () => show());
addEventListener("hashchange", navigate);
addEventListener("resize", () => show());
setInterval(tick, TICK_MS);
navigate();
new Stream(told, turned).run();
