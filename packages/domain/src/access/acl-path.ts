// ACL paths: what is one, and its normal form.

const SEGMENT = String.raw`[A-Za-z0-9.\-_]+`;

/** Paths a permission may be given on. Everything else is refused when it is set, not when it is asked about. */
const VALID = new RegExp(
  "^(?:" +
    [
      "/",
      "/access",
      "/access/groups",
      `/access/groups/${SEGMENT}`,
      "/access/realm",
      `/access/realm/${SEGMENT}`,
      "/nodes",
      `/nodes/${SEGMENT}`,
      "/pool",
      `/pool/${SEGMENT}(?:/${SEGMENT}){0,2}`,
      "/sdn",
      `/sdn/(?:controllers|dns|fabrics|ipams|prefix-lists|route-maps)(?:/${SEGMENT})?`,
      "/sdn/zones",
      `/sdn/zones/${SEGMENT}`,
      `/sdn/zones/${SEGMENT}/${SEGMENT}`,
      `/sdn/zones/${SEGMENT}/${SEGMENT}/[1-9][0-9]{0,3}`,
      "/storage",
      `/storage/${SEGMENT}`,
      "/vms",
      "/vms/[1-9][0-9]{2,}",
      "/mapping",
      `/mapping/${SEGMENT}`,
      `/mapping/${SEGMENT}/${SEGMENT}`,
    ].join("|") +
    ")$",
);

/** One leading slash, no doubled or trailing ones. undefined = cannot be an ACL path. */
export function normalizeAclPath(text: string | undefined): string | undefined {
  if (text === undefined || text === "" || text === "0") return undefined;
  let path = text.replaceAll(/\/+/g, "/");
  if (path.endsWith("/")) path = path.slice(0, -1);
  if (!path.startsWith("/")) path = `/${path}`;
  return /^[A-Za-z0-9.\-_/]+$/.test(path) ? path : undefined;
}

/** For normalised paths. */
export function isValidAclPath(path: string): boolean {
  return VALID.test(path);
}
