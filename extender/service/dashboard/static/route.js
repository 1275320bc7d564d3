// The address of the page, as in `#/gangs/team-a/train?q=h100&members.sort=-node`: what it is about, and how it is
// looked at. Links can be sent to others, and Back and reload lead to the same.

/** Return the path of an address as a list of names, none for the overview; what cannot be read is the overview too. */
export function pathOf(hash) {
  const names = hash
    .replace(/^#?\/?/, "")
    .split("?")[0]
    .split("/")
    .filter(Boolean);
  try {
    return names.map(decodeURIComponent);
  } catch {
    return [];
  }
}

/** Return the link to the page of a path, as in `pageLink("gangs", "team-a", "train")`. */
export const pageLink = (...names) => `#/${names.map(encodeURIComponent).join("/")}`;

/** Return the link to the page of a gang called namespace/name. */
export const gangLink = (name) => pageLink("gangs", ...name.split("/"));

/** Return what the address says of how the page is looked at, "" for what it does not say. */
export const seen = (name) => query().get(name) ?? "";

/** Have the address say how the page is looked at; "" is not said. No new step for Back, and nothing is called. */
export function see(name, value) {
  const now = query();
  if ((now.get(name) ?? "") === value) return;
  if (value) now.set(name, value);
  else now.delete(name);
  const words = now.toString();
  const path = location.hash.split("?")[0] || "#/";
  history.replaceState(history.state, "", words ? `${path}?${words}` : path);
}

const query = () => new URLSearchParams(location.hash.split("?")[1] ?? "");
