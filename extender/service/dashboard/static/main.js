// The page: the stream feeds the model, and what shows the model is told when it changes.

import { byId, el, replace, say } from "./dom.js";
import { DomainTable } from "./domains.js";
import { Filter } from "./filter.js";
import { count } from "./format.js";
import { PlacedTable, WaitingTable } from "./gangs.js";
import { Islands } from "./islands.js";
import { startKeys } from "./keys.js";
import { showLatency } from "./latency.js";
import { Model } from "./model.js";
import { MODES, Modes } from "./modes.js";
import { PAGES } from "./pages.js";
import { PictureView } from "./pictureview.js";
import { showQueues } from "./queues.js";
import { showUnready } from "./readiness.js";
import { gangLink, pathOf, seen } from "./route.js";
import { Router } from "./router.js";
import { Spoken, showStatus } from "./status.js";
import { Stream } from "./stream.js";
import { startTheme } from "./theme.js";
import { showTimeline } from "./timeline.js";

const TICK_MS = 1_000;
const STANDBY = "Another replica leads: gangs are evaluated there, and this page shows what this one knows of them.";

const model = new Model();
const modes = new Modes(model);
const filter = new Filter(byId("filter"), () => show());
const picture = new PictureView(
  {
    canvas: byId("canvas"),
    host: byId("picture"),
    empty: byId("picture-empty"),
    pointed: byId("pointed"),
    trail: byId("trail"),
    tip: byId("tip"),
  },
  {
    model,
    modes,
    open: (name) => {
      location.hash = gangLink(name);
    },
    lit: (node, holder) => filter.lit(node, holder),
    changed: () => show(),
  },
);
const hooks = { modes, point: (name) => picture.lift(name) };
const waiting = new WaitingTable(byId("waiting"), byId("waiting-count"), hooks);
const placed = new PlacedTable(byId("running"), byId("running-count"), hooks);
const domains = new DomainTable(byId("domains"), byId("domains-table"));
const router = new Router({
  overview: byId("overview"),
  nav: byId("pages"),
  pages: PAGES,
  shared: { model, modes, filter },
});
const islands = new Islands({ panel: byId("islands-panel"), host: byId("islands"), heading: byId("islands-pods") });
const spoken = new Spoken(byId("spoken"));
let due = false;
let telling = false;
let again = false;
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
  legend();
  words();
}

/** What is told in words, each in a task of its own: none holds up what the reader does for long. */
const WORDS = [
  () => showQueues(byId("queues"), byId("queues-legend"), model, filter),
  () => waiting.update(model, filter),
  () => placed.update(model, filter),
  () => showTimeline({ lanes: byId("timeline"), list: byId("events"), heading: byId("timeline-span") }, model, filter),
  () => showLatency(byId("latency"), byId("recording"), model),
  () => islands.update(model),
  () => domains.update(model, filter, () => picture.tree()),
];

function words() {
  again = true;
  if (!telling) tell(WORDS.length);
}

/** Take the step at a place, then the next; after the last one all of them again, where something came meanwhile. */
function tell(place) {
  telling = place < WORDS.length || again;
  if (!telling) return;
  setTimeout(() => {
    const next = place < WORDS.length ? place : 0;
    if (next === 0) again = false;
    if (router.isHome) WORDS[next]();
    tell(next + 1);
  });
}

/** Show what changes as time goes by. */
function tick() {
  if (!model.loaded || !router.isHome || document.hidden) return;
  showStatus(byId("status"), model);
  words();
}

function told(kind, data) {
  if (kind === "board") model.load(data);
  else if (kind === "change") model.change(data);
  else return;
  modes.settle();
  byId("main").classList.add("told");
  if (model.status) stand(model.status);
  spoken.update(model);
  show();
}

/** Say how this replica stands. */
function stand({ ready, leading, unready, version: running }) {
  const role = byId("role");
  role.hidden = false;
  say(role, ready ? (leading ? "leading" : "standby") : "not ready");
  role.className = `badge ${ready ? (leading ? "good" : "warn") : "bad"}`;
  role.title = ready && !leading ? STANDBY : "";
  say(byId("version"), `Muster ${running}`);
  if (version && version !== running) notify(`Muster is now ${running}; load the page again to have its dashboard.`);
  else if (!ready) notify(`Muster is not ready: ${unready.join("; ")}. What is shown may be old.`, "readiness");
  else if (!leading) notify(STANDBY, "readiness");
  else if (byId("notice").dataset.about === "readiness") notify("");
  version = running;
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
  showUnready(byId("unready"), model.loaded || state === "live" ? "" : state, why);
  if (!model.loaded) return;
  if (state === "live") {
    if (byId("notice").dataset.about === "connection") notify("");
    return;
  }
  const what = state === "lost" ? "Connection lost" : "The service answers, but does not tell how the cluster stands";
  notify(`${what}: ${why}. Retrying. What is shown is what was told last.`, "connection");
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

/** Say what the colours mean, where they mean something else than before. */
function legend() {
  const choice = seen("colour");
  const stamp = `${modes.mode} ${model.turns} ${choice}`;
  if (byId("legend").stamp === stamp) return;
  byId("legend").stamp = stamp;
  byId("colour").value = choice;
  replace(byId("legend"), modes.legend());
}

replace(
  byId("colour"),
  ["", ...MODES].map((mode) => el("option", { value: mode }, mode || "automatic")),
);
byId("colour").addEventListener("change", () => {
  modes.choose(byId("colour").value);
  show();
});
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
