// How much of each package unit tests must run through. vitest judges that itself; of a run in which a file failed it says only
// that it failed, and the second try of a few files counts no coverage: such a run is judged here.
import { join } from "node:path";

const packages = ["contracts", "domain", "kit", "store", "server", "agent", "client", "cli", "talos"];
const kinds = ["lines", "branches"] as const;
const LEAST_PERCENT = 80;

/** For vitest. */
export const coverageThresholds = Object.fromEntries(
  packages.map((name) => [
    `packages/${name}/src/**`,
    Object.fromEntries(kinds.map((kind) => [kind, LEAST_PERCENT])),
  ]),
);

/** Of vitest's coverage-summary.json: by absolute path, and "total". */
export type CoverageSummary = Readonly<
  Record<
    string,
    Readonly<Record<(typeof kinds)[number], { readonly total: number; readonly covered: number }>>
  >
>;

/** What is below it, in a line each. */
export function missedCoverage(summary: CoverageSummary, root: string): string[] {
  return packages.flatMap((name) => {
    const folder = join(root, "packages", name, "src/");
    const files = Object.keys(summary).filter((file) => file.startsWith(folder));
    if (files.length === 0) return [`coverage of packages/${name}: nothing was counted`];
    return kinds.flatMap((kind) => {
      const sum = (of: "total" | "covered"): number =>
        files.reduce((all, file) => all + (summary[file]?.[kind][of] ?? 0), 0);
      const [covered, total] = [sum("covered"), sum("total")];
      if (covered * 100 >= total * LEAST_PERCENT) return [];
      return [`coverage of packages/${name}: ${covered} of ${total} ${kind}, less than ${LEAST_PERCENT} %`];
    });
  });
}
