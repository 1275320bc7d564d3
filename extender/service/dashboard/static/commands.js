// What people do about something is a command, which the page shows and copies; it sends nothing itself.

import { el, replace } from "./dom.js";

const COPIED_MS = 1_500;

/** What can be said and done about a gang called namespace/name: [command, what it does]. */
export function gangCommands(name, { waits, runs }) {
  const command = (verb, ...rest) => ["muster", verb, quoted(name), ...rest].join(" ");
  return [
    [command("explain"), "the same as this page, in a terminal"],
    [command("hold"), "keeps it from starting until it is released"],
    [command("release"), "lets it start again after a hold"],
    waits && [command("priority", "CLASS"), "gives it another PriorityClass"],
    runs && [command("requeue"), "evicts it, so that it waits in line again"],
    [command("cancel"), "deletes it with what made its pods"],
  ].filter(Boolean);
}

/** Return commands as a list, each with a button that copies it. */
export function commandList(commands) {
  return el(
    "ul",
    { class: "commands" },
    commands.map(([text, what]) =>
      el("li", {}, el("code", {}, text), copier(text), el("span", { class: "dim" }, what)),
    ),
  );
}

/** Return a button that opens a list of commands beside it: `commands()` is asked when it is opened. */
export function commandButton(name, commands) {
  const button = el(
    "button",
    { type: "button", class: "act", title: "Commands", "aria-label": `Commands for ${name}` },
    "⋯",
  );
  button.addEventListener("click", () => {
    const box = el("div", { popover: "", class: "popover", role: "dialog", "aria-label": `Commands for ${name}` });
    replace(box, el("p", {}, el("b", {}, name)), commandList(commands()));
    document.body.append(box);
    box.addEventListener("toggle", (event) => event.newState === "closed" && box.remove());
    const { bottom, right } = button.getBoundingClientRect();
    box.showPopover();
    const room = { x: innerWidth - box.offsetWidth - 8, y: innerHeight - box.offsetHeight - 8 };
    box.style.left = `${Math.max(8, Math.min(right - box.offsetWidth, room.x))}px`;
    box.style.top = `${Math.max(8, Math.min(bottom + 4, room.y))}px`;
    box.querySelector("button")?.focus();
  });
  return button;
}

function copier(text) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${text}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text, button.previousSibling)) ? "Copied" : "Selected";
    setTimeout(() => {
      button.textContent = "Copy";
    }, COPIED_MS);
  });
  return button;
}

/** Put a text on the clipboard; where the browser does not let the page, select it, so that Ctrl+C does. */
async function copy(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(shown);
    return false;
  }
}

/** Write a word as a shell takes it. */
const quoted = (word) => (/^[\w./:@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
