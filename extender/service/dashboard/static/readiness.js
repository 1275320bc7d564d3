// What stands in the place of the cluster while there is nothing to show: why, what to do, and where to look.

import { commandList } from "./commands.js";
import { el, replace } from "./dom.js";

/** What is to be done, by what the service says: the first that matches. */
const ADVICE = [
  [
    /not synced|starting/,
    "Muster is reading the cluster from the API server. That takes seconds, or up to a minute with 10,000 nodes. " +
      "If it stays so, the API server does not answer, or refuses to list the kinds that are named.",
  ],
  [/401|[Uu]nauthorized/, "The API server does not accept Muster's token. Restart the pod, so that it gets a new one."],
  [/403|[Ff]orbidden|may not/, "Muster lacks a right. Apply the ClusterRole of its release again."],
  [
    /silent|timeout|disconnected|unreachable/i,
    "The API server has stopped answering. Muster goes on by itself when it is back.",
  ],
  [/pages are open/, "As many people look as may at once. Close a page that is not needed."],
];
const OTHERWISE = "Muster's log says more.";
const COMMANDS = [
  ["kubectl -n muster-system get pods", "is it running?"],
  ["kubectl -n muster-system logs deploy/muster --tail 50", "what does it say?"],
  ["muster status", "the same from a terminal"],
];

/** Show in `host` why there is nothing to show yet, as `state` of the connection and the service's words tell; hide it for "". */
export function showUnready(host, state, why) {
  const stamp = `${state} ${why}`;
  if (host.stamp === stamp) return;
  host.stamp = stamp;
  host.hidden = !state;
  if (!state) return;
  const reasons = why.replace(/^not ready: /, "").split("; ");
  const advice =
    state === "lost"
      ? "Nothing answers at this address. If it is a port-forward, start it again; otherwise see whether Muster runs."
      : (ADVICE.find(([words]) => words.test(why))?.[1] ?? OTHERWISE);
  replace(
    host,
    el("h1", {}, state === "lost" ? "Muster does not answer" : "Muster is not ready"),
    el(
      "ul",
      { class: "suggestions" },
      reasons.map((reason) => el("li", {}, reason)),
    ),
    el("p", {}, advice),
    el("p", { class: "dim" }, "This page tries again by itself. To look closer:"),
    commandList(COMMANDS),
  );
}
