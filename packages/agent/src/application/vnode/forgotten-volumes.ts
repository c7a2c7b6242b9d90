// Volumes that whoever administers a cluster has deleted himself. Nobody is told of that, and what was in them would stay and count
// for ever. Gone is only what was seen before, as one whose data goes with it: of any other, nobody knows what it was meant to be.
import {
  goesWithItsObject,
  type Volume,
  type VolumeClaim,
  volumeNameFor,
} from "@gpve/domain/vcluster/vnode/local-volumes.ts";
import type { Clock } from "@gpve/kit/clock.ts";

/** A store that is put back, or a volume that is made anew, is there again by then. */
const MISSED_MS = 60_000;

export interface VolumesSeen {
  /** Those of this node. */
  readonly folders: readonly string[];
  /** All that the cluster has. */
  readonly volumes: readonly Volume[];
  readonly claims: readonly VolumeClaim[];
}

export class ForgottenVolumes {
  readonly #clock: Clock;
  /** By cluster, those whose data goes with them, and since when they are missed. */
  readonly #seen = new Map<string, ReadonlyMap<string, number | undefined>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Which folders nobody knows any more. */
  among(cluster: string, { folders, volumes, claims }: VolumesSeen): readonly string[] {
    const now = this.#clock.monotonic();
    const before = this.#seen.get(cluster);
    const objects = new Map(volumes.map((volume) => [volume.metadata.name, volume]));
    const paths = volumes.flatMap(({ spec }) => spec.local?.path ?? []);
    const claimed = new Set(claims.map(volumeNameFor));
    const seen = folders.flatMap((folder): readonly (readonly [string, number | undefined])[] => {
      const volume = objects.get(folder);
      if (volume !== undefined) return goesWithItsObject(volume) ? [[folder, undefined]] : [];
      if (before?.has(folder) !== true) return [];
      const isUsed = claimed.has(folder) || paths.some((path) => path.split("/").includes(folder));
      return [[folder, isUsed ? undefined : (before.get(folder) ?? now)]];
    });
    this.#seen.set(cluster, new Map(seen));
    return seen.filter(([, since]) => since !== undefined && now - since >= MISSED_MS).map(([name]) => name);
  }
}
