const names = new Map<string, string>();

/** The metric's name for a route of /api2. Routes are declared, so there are only so many; each name is made once. */
export function metricRoute(route: string): string {
  let name = names.get(route);
  if (name === undefined) {
    name = route === "unmatched" ? route : `/api2${route}`;
    names.set(route, name);
  }
  return name;
}
