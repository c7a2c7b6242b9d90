// Which newer versions there are, and the way to them: through the newest patch of every minor, one minor at a time.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type ContractName, contracts } from "../contract/contracts.ts";
import { kubernetesRanges } from "../contract/kubernetes-versions.ts";
import { versionOf } from "../engine/versions.ts";

export type FetchText = (
  url: string,
  init: { readonly signal: AbortSignal },
) => Promise<{ readonly status: number; text(): Promise<string> }>;

export interface Updates {
  readonly talos: {
    readonly now: string;
    /** The newest patch of the minor that runs; null: it runs. */
    readonly patch: string | null;
    /** Upgrades one after another to the newest version that we can make configurations for. */
    readonly way: readonly string[];
    /** Released, and of a minor that this program does not know yet. */
    readonly unknown: readonly string[];
  };
  readonly kubernetes: {
    readonly now: string;
    /** What this Talos runs: oldest and newest minor. */
    readonly oldest: string;
    readonly newest: string;
    readonly recommended: string;
    /** The minor must grow before Talos does, one at a time. */
    readonly way: readonly string[];
  };
}

const TIMEOUT_MS = 30_000;
const RELEASE = /^v1\.\d+\.\d+$/;

/** Asks the factory, then its mirrors; broken releases are left out. */
export async function checkUpdates({ image, versions }: Cluster, fetch: FetchText): Promise<Updates> {
  const bases = [image.factory, ...image.mirrors].map((base) => base.replace(/\/+$/, ""));
  const failures: string[] = [];
  for (const base of bases) {
    try {
      const released = await releasedVersions(base, fetch);
      return updatesOf(
        versions,
        released.filter((version) => RELEASE.test(version)),
      );
    } catch (err) {
      failures.push(`${base}: ${messageOf(err)}`);
    }
  }
  throw new AppError("node.unavailable", `no Image Factory could be asked: ${failures.join("; ")}`, {
    data: { finding: "updates-unknown" },
  });
}

/** What a factory has, without what it calls broken. */
export async function releasedVersions(
  base: string,
  fetch: FetchText,
  timeoutMs = TIMEOUT_MS,
): Promise<readonly string[]> {
  const [all, broken] = await Promise.all([
    list(`${base}/versions`, fetch, timeoutMs),
    list(`${base}/versions?broken=true`, fetch, timeoutMs),
  ]);
  // The second list has the broken ones too, or only them: what the first one has counts.
  const isBroken = onlyIn(broken, all);
  return all.filter((version) => !isBroken.has(version));
}

function onlyIn(broken: readonly string[], all: readonly string[]): ReadonlySet<string> {
  const isSuperset = all.every((version) => broken.includes(version));
  return new Set(isSuperset ? broken.filter((version) => !all.includes(version)) : broken);
}

async function list(url: string, fetch: FetchText, timeoutMs: number): Promise<readonly string[]> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
  if (answer.status !== 200) throw new Error(`status ${answer.status}`);
  const value = JSON.parse(await answer.text()) as unknown;
  if (!Array.isArray(value) || !value.every((each) => typeof each === "string"))
    throw new Error("no list of versions");
  return value as string[];
}

export function updatesOf(versions: Cluster["versions"], released: readonly string[]): Updates {
  const now = versions.talos.replace(/^v?/, "v");
  const own = versionOf(now);
  const newest = new Map<number, string>();
  for (const version of released) {
    const { minor, patch } = versionOf(version);
    const known = newest.get(minor);
    if (known === undefined || versionOf(known).patch < patch) newest.set(minor, version);
  }
  const minors = [...newest.keys()].toSorted((a, b) => a - b);
  const isKnown = (minor: number): boolean => `v1.${minor}` in contracts;
  const patch = newest.get(own.minor);
  const hasPatch = patch !== undefined && versionOf(patch).patch > own.patch;
  const later = minors.filter((minor) => minor > own.minor);
  return {
    talos: {
      now,
      patch: hasPatch ? patch : null,
      way: [
        ...(hasPatch ? [patch] : []),
        ...later.filter(isKnown).flatMap((minor) => newest.get(minor) ?? []),
      ],
      unknown: later.filter((minor) => !isKnown(minor)).flatMap((minor) => newest.get(minor) ?? []),
    },
    kubernetes: kubernetesOf(versions),
  };
}

function kubernetesOf({ contract, talos, kubernetes }: Cluster["versions"]): Updates["kubernetes"] {
  const minor = `v1.${versionOf(talos).minor}` as ContractName;
  const range = kubernetesRanges[minor in kubernetesRanges ? minor : contract];
  const now = kubernetes.replace(/^v?/, "v");
  const goal = versionOf(range.recommended);
  const own = versionOf(now);
  const between = Array.from(
    { length: Math.max(0, goal.minor - own.minor - 1) },
    (_, at) => own.minor + at + 1,
  );
  const isBehind = goal.minor > own.minor || (goal.minor === own.minor && goal.patch > own.patch);
  return {
    now,
    oldest: `v1.${range.oldestMinor}`,
    newest: `v1.${range.newestMinor}`,
    recommended: range.recommended,
    way: isBehind ? [...between.map((each) => `v1.${each}.x`), range.recommended] : [],
  };
}
