// Deep links: which gang's page the address asks for.

const GANG = /^#\/gangs\/([^/]+)\/([^/]+)$/;

/** Return the link to the page of a gang called namespace/name. */
export function gangLink(name) {
  return `#/gangs/${name.split("/").map(encodeURIComponent).join("/")}`;
}

/** Return the gang that the address' hash names, "" for the overview; what cannot be read is the overview too. */
export function route(hash) {
  const found = GANG.exec(hash);
  if (!found) return "";
  try {
    return `${decodeURIComponent(found[1])}/${decodeURIComponent(found[2])}`;
  } catch {
    return "";
  }
}
