// Which release may stand in for one that cannot be had.
import { compareVersions, type Component } from "@gpve/domain/component/component.ts";

const minorOf = (version: string): string => version.split(".").slice(0, 2).join(".");
const isPatch = (version: string): boolean => /^\d+\.\d+\.\d+/.test(version);

/** This one and the older patches of its minor, newest first. */
export function patchesFrom({ releases }: Component, version: string): readonly string[] {
  if (!isPatch(version)) return [version];
  const older = releases
    .map((release) => release.version)
    .filter((other) => minorOf(other) === minorOf(version) && compareVersions(other, version) < 0);
  return [version, ...older.toSorted(compareVersions).toReversed()];
}

/** All others, nearest first: patches of its minor, the newer of two equally near, then whatever there is. */
export function nearestReleases({ releases }: Component, version: string): readonly string[] {
  const others = releases.map((release) => release.version).filter((other) => other !== version);
  const patch = (text: string): number => Number.parseInt(text.split(".")[2] ?? "0", 10);
  const near = others
    .filter((other) => isPatch(other) && minorOf(other) === minorOf(version))
    .toSorted(
      (a, b) =>
        Math.abs(patch(a) - patch(version)) - Math.abs(patch(b) - patch(version)) || compareVersions(b, a),
    );
  return [...near, ...others.filter((other) => !near.includes(other))];
}
