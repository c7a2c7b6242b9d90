/** Of a decoded path; empty ones do not count. */
export function pathSegments(path: string): string[] {
  return path.split("/").filter((segment) => segment !== "");
}
