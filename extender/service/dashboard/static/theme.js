// Light or dark: as the system is, or as the reader chose.

const KEY = "muster-theme";
const CHOICES = ["auto", "light", "dark"];

/** Run the button that goes from one choice to the next; call `changed` when colours are other ones. */
export function startTheme(button, changed) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  let choice = read();
  const show = () => {
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
    changed();
  };
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    write(choice);
    show();
  });
  media.addEventListener("change", show);
  show();
}

function read() {
  try {
    const kept = localStorage.getItem(KEY);
    return CHOICES.includes(kept) ? kept : "auto";
  } catch {
    return "auto"; // the browser keeps nothing for this page
  }
}

function write(choice) {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // It holds until the page is left.
  }
}

/** Return what reads colours of the style sheet as the canvas takes them: as they are in the theme that shows. */
export function colourReader() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  return {
    read(colour) {
      probe.style.color = colour;
      return getComputedStyle(probe).color;
    },
    done: () => probe.remove(),
  };
}
