import { pathSegments } from "@gpve/domain/schema/path-segments.ts";
import { percentDecode } from "../form.ts";

export interface ApiPath {
  /** "json", "extjs", ... or undefined when the path names none. */
  readonly format: string | undefined;
  /** Decoded path below the format as the client wrote it, for error texts: "/access/users/". */
  readonly relative: string;
  readonly segments: readonly string[];
}

const USUAL = "/api2/json/";
const SLASH = 0x2f;
const formatPattern = /^\/api2\/+([a-z][a-z0-9]+)(\/.*)?$/s;

/**
 * The whole path is decoded before it is split, as PVE does: %2F separates segments, doubled and trailing slashes
 * mean nothing.
 */
export function splitApiPath(rawPath: string): ApiPath {
  const decoded = percentDecode(rawPath);
  // What nearly every client sends, without a pattern.
  if (decoded.startsWith(USUAL) && decoded.charCodeAt(USUAL.length) !== SLASH) {
    const rest = decoded.slice(USUAL.length - 1);
    return { format: "json", relative: rest, segments: pathSegments(rest) };
  }
  const match = formatPattern.exec(decoded);
  if (match === null) return { format: undefined, relative: decoded, segments: [] };
  const relative = match[2] ?? "";
  return { format: match[1], relative, segments: pathSegments(relative) };
}
