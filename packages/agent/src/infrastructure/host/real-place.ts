// Where a path really leads: links followed, and bind mounts seen through by the file system that lies behind them.
import { statSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isBelow, overlapOf, type Overlap } from "@gpve/domain/storage/protected-paths.ts";

export interface Mount {
  /** "254:0" */
  readonly device: string;
  /** Which part of the file system is mounted. */
  readonly root: string;
  readonly point: string;
  readonly fsType: string;
  /** "/dev/sda1", "nas:/export". */
  readonly source?: string;
}

export interface Place {
  /** Without links. */
  readonly path: string;
  readonly fsType: string;
  /** The same place as its file system names it, and what is mounted below it. */
  readonly spots: readonly Spot[];
}

export interface Spot {
  readonly device: string;
  readonly path: string;
  /** Where it is mounted; not of the place itself. */
  readonly point?: string;
}

/** The text of /proc/self/mountinfo. */
export function parseMounts(text: string): Mount[] {
  return text.split("\n").flatMap((line): Mount[] => {
    const words = line.split(" ");
    const [, , device, root, point] = words;
    const [fsType, source = ""] = words.slice(words.indexOf("-", 6) + 1);
    if (device === undefined || root === undefined || point === undefined || fsType === undefined) return [];
    return [{ device, root: unescaped(root), point: unescaped(point), fsType, source: unescaped(source) }];
  });
}

/** At `unseen` folders and below nothing is looked at: they may be a server's that hangs. */
export async function placeOf(
  path: string,
  mounts: readonly Mount[],
  unseen: readonly string[] = [],
): Promise<Place> {
  const isUnseen = unseen.some((folder) => path === folder || isBelow(path, folder));
  const real = isUnseen ? path : await realOf(path);
  const holding = mounts.filter(({ point }) => real === point || isBelow(real, point));
  // Of two on one point the later hides the earlier.
  const own = holding.reduce<Mount | undefined>(
    (best, each) => (best === undefined || each.point.length >= best.point.length ? each : best),
    undefined,
  );
  const below = mounts.filter(({ point }) => isBelow(point, real));
  return {
    path: real,
    fsType: own?.fsType ?? "",
    spots: [
      ...(own === undefined ? [] : [{ device: own.device, path: inside(own, real) }]),
      ...below.map(({ device, root, point }) => ({ device, path: root, point })),
    ],
  };
}

/** How a place overlaps another: by name, or as a part of the same file system. */
export function placesOverlap(place: Place, other: Place): Overlap | undefined {
  const byName = overlapOf(place.path, other.path);
  if (byName !== undefined) return byName;
  for (const at of other.spots) {
    const overlap = spotsOverlap(place.spots, at);
    if (overlap === undefined) continue;
    if (at.point === undefined) return overlap;
    // Only a part of the other place is here: what is mounted inside it.
    if (overlap !== "holds") return "lies in";
    if (!isSingleFile(at.point)) return overlap;
  }
  return undefined;
}

/** How some of a place's spots overlap another spot. */
export function spotsOverlap(spots: readonly Spot[], at: Spot): Overlap | undefined {
  for (const { device, path, point } of spots) {
    const overlap = device === at.device ? overlapOf(path, at.path) : undefined;
    if (overlap !== undefined) return point === undefined ? overlap : "holds";
  }
  return undefined;
}

/** Container runtimes mount single files of a disk into /etc: the disk is no part of /etc by that. */
function isSingleFile(point: string): boolean {
  return statSync(point, { throwIfNoEntry: false })?.isDirectory() === false;
}

/** What is not there yet lies where its parent does. */
async function realOf(path: string): Promise<string> {
  const missing: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    try {
      return join(await realpath(at), ...missing);
    } catch (err) {
      const { code } = err as NodeJS.ErrnoException;
      if ((code !== "ENOENT" && code !== "ENOTDIR") || at === "/") throw err;
      missing.unshift(at.slice(at.lastIndexOf("/") + 1));
    }
  }
}

function inside({ root, point }: Mount, real: string): string {
  return join(root, real.slice(point === "/" ? 0 : point.length));
}

/** "\040" is a blank. */
function unescaped(text: string): string {
  return text.replaceAll(/\\(\d{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
