import { percentDecode } from "../form.ts";

export interface ApiPath {
  /** "json", "extjs", ... or undefined when the path names none. */
  readonly format: string | undefined;
  /** Decoded path below the format as the client wrote it, for error texts: "/access/users/". */
  readonly relative: string;
  readonly segments: readonly string[];
}

const formatPattern = /^\/api2\/+([a-z][a-z0-9]+)(\/.*)?$/s;

/**
 * The whole path is decoded before it is split, as PVE does: %2F separates segments, doubled and trailing slashes
 * mean nothing.
 */
export function splitApiPath(rawPath: string): ApiPath {
  const decoded = percentDecode(rawPath);
  const match = formatPattern.exec(decoded);
  if (match === null) return { format: undefined, relative: decoded, segments: [] };
  const relative = match[2] ?? "";
  return { format: match[1], relative, segments: relative.split("/").filter((segment) => segment !== "") };
}
