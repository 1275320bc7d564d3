// Keys that work everywhere on the page.

import { pathOf } from "./route.js";

/** Have keys go to the parts of the page; not while text is entered, nor together with a modifier. */
export function startKeys({ filter, canvas, waiting, main, skip }) {
  const goals = {
    "/": () => filter.focus(),
    c: () => home(() => canvas.focus()),
    w: () => home(() => (waiting.querySelector("tbody a") ?? waiting.querySelector(".scroll")).focus()),
    Escape: () => home(() => undefined),
  };
  document.addEventListener("keydown", (event) => {
    const writes = event.target.matches("input, select") || document.querySelector(":popover-open");
    if (writes || event.altKey || event.ctrlKey || event.metaKey || !Object.hasOwn(goals, event.key)) return;
    event.preventDefault();
    goals[event.key]();
  });
  // A link to #main would be taken for an address of the page.
  skip.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
}

/** Go to the overview, then on. */
function home(then) {
  if (!pathOf(location.hash).length) {
    then();
    return;
  }
  addEventListener("hashchange", () => requestAnimationFrame(then), { once: true });
  location.hash = "#/";
}
