// How many backups each guest of this node has, kept in its record: quotas bound them, and servers see no storages. Those
// of guests that are gone are counted too, for servers know whose they were, and those of virtual clusters, whose names say it.
//
// Counted again whenever one was made or removed here, and from time to time for what others did: storages may be shared,
// and files removed by hand.
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import {
  backupPlace,
  clusterBackupCollection,
  clusterBackupsId,
  type ClusterBackups,
} from "@gpve/domain/backup/cluster-backups.ts";
import { leftBackupCollection, seenBackupCollection } from "@gpve/domain/backup/left-backups.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { contentOf, isShared, servesNode, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { VolumeInfo } from "@gpve/domain/storage/plugin.ts";
import { parseClusterArchiveName } from "@gpve/domain/vcluster/backup/archive-name.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationDefinition, Step } from "@gpve/kit/operation/definition.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeStorages } from "../../storage/node-storages.ts";

export interface BackupCountsDeps {
  readonly node: string;
  readonly records: () => Records;
  readonly storages: Pick<NodeStorages, "definitions" | "isEnabled" | "open">;
  readonly log: Logger;
}

const EVERY_MS = 60_000;

interface Found {
  readonly definition: StorageDefinition;
  /** undefined: it was not seen since this process began. */
  readonly archives: readonly VolumeInfo[] | undefined;
}

export class BackupCounts {
  readonly #deps: BackupCountsDeps;
  /** One after the other: what was seen earlier must not be written later. */
  #last: Promise<void> = Promise.resolve();
  /** What each storage had when it was last seen: one that is away or switched off still has it. */
  readonly #known = new Map<string, readonly VolumeInfo[]>();

  constructor(deps: BackupCountsDeps) {
    this.#deps = deps;
  }

  /** Never fails: what could not be counted now is counted later. */
  recount(): Promise<void> {
    this.#last = this.#last
      .then(() => this.#count())
      .catch((err: unknown) => {
        this.#deps.log.warn({ err: messageOf(err) }, "backups could not be counted");
      });
    return this.#last;
  }

  /** Until the signal fires. */
  async run(clock: Pick<Clock, "sleep">, signal: AbortSignal): Promise<void> {
    await every(EVERY_MS, { clock, signal }, () => this.recount());
  }

  /** An operation that makes or removes backups: its task ends only when they are counted. */
  counting<A, S extends object>(definition: OperationDefinition<A, S>): OperationDefinition<A, S> {
    const counted = (work: Step<A, S>["run"]): Step<A, S>["run"] => {
      return async (ctx) => {
        try {
          await work(ctx);
        } finally {
          await this.recount();
        }
      };
    };
    const steps = definition.steps?.map((step): Step<A, S> => ({
      ...step,
      run: counted((ctx) => step.run(ctx)),
      undo: counted((ctx) => step.undo?.(ctx)),
    }));
    return { ...definition, ...given({ steps }) };
  }

  async #count(): Promise<void> {
    const { records, node } = this.#deps;
    const own = records()
      .collection(guestCollection)
      .list()
      .filter(({ value }) => value.node === node);
    const left = records()
      .collection(leftBackupCollection)
      .list()
      .filter(({ value }) => value.node === node)
      .toSorted((a, b) => a.value.until - b.value.until);
    await this.#forget(new Set(left.map(({ id }) => id)));
    const found = await this.#found();
    await this.#noteClusters(found);
    if (own.length + left.length === 0) return;
    const isWhole = found.every(({ archives }) => archives !== undefined);
    const times = timesOf(found);
    const seen = records().collection(seenBackupCollection(node));
    for (const { id, value } of left) {
      const there = takeUntil(times.get(keyOf(value)), value.until);
      const known = seen.get(id)?.value.backups;
      const backups = isWhole ? there : Math.max(there, known ?? value.backups);
      if (backups !== known)
        await records().transact((tx) => tx.put(seenBackupCollection(node), id, { backups }));
    }
    for (const { id, value } of own) {
      const there = times.get(keyOf(value))?.length ?? 0;
      // A storage that is away still has what it had.
      const backups = isWhole ? there : Math.max(there, value.backups ?? 0);
      if (backups !== (value.backups ?? 0)) await this.#note(id, backups);
    }
  }

  /** What was seen of guests whose last archive is known to be gone. */
  async #forget(left: ReadonlySet<string>): Promise<void> {
    const { records, node } = this.#deps;
    const seen = seenBackupCollection(node);
    const over = records()
      .collection(seen)
      .list()
      .filter(({ id }) => !left.has(id));
    for (const { id } of over) await records().transact((tx) => tx.delete(seen, id));
  }

  /** Of every storage that this node may have backups on. */
  async #found(): Promise<readonly Found[]> {
    const { storages, log, node } = this.#deps;
    const found: Found[] = [];
    const definitions = storages
      .definitions()
      .filter((definition) => servesNode(definition, node) && contentOf(definition).has("backup"));
    for (const definition of definitions) {
      const { storage } = definition;
      try {
        if (storages.isEnabled(definition)) {
          const { plugin } = await storages.open(storage);
          this.#known.set(storage, await plugin.list({ content: ["backup"] }));
        }
      } catch (err) {
        log.debug({ storage, err: messageOf(err) }, "backups of a storage are not seen");
      }
      found.push({ definition, archives: this.#known.get(storage) });
    }
    return found;
  }

  /** Archives of virtual clusters, also of those that are gone. */
  async #noteClusters(found: readonly Found[]): Promise<void> {
    const { records, node } = this.#deps;
    const collection = clusterBackupCollection(node);
    const before = new Map(
      records()
        .collection(collection)
        .list()
        .map(({ id, value }) => [id, value]),
    );
    const now = clustersOf(found, node, [...before.values()]);
    for (const [id, value] of now)
      if (JSON.stringify(before.get(id)) !== JSON.stringify(value))
        await records().transact((tx) => tx.put(collection, id, value));
    for (const id of before.keys())
      if (!now.has(id)) await records().transact((tx) => tx.delete(collection, id));
  }

  async #note(id: string, backups: number): Promise<void> {
    const { records, node } = this.#deps;
    await records().transact((tx) => {
      const guest = tx.get(guestCollection, id)?.value;
      if (guest === undefined || guest.node !== node) return;
      const { summary: _derived, ...stored } = guest;
      tx.put(guestCollection, id, guestRecord({ ...stored, backups }));
    });
  }
}

/** When the archives of each guest were made. */
function timesOf(found: readonly Found[]): ReadonlyMap<string, number[]> {
  const times = new Map<string, number[]>();
  for (const { vmid, subtype, ctime } of found.flatMap(({ archives = [] }) => archives)) {
    const key = keyOf({ type: subtype ?? "", vmid: vmid ?? 0 });
    times.set(key, [...(times.get(key) ?? []), ctime]);
  }
  return times;
}

/** By their ids; in a place that was not seen there is what was there before. */
function clustersOf(
  found: readonly Found[],
  node: string,
  before: readonly ClusterBackups[],
): ReadonlyMap<string, ClusterBackups> {
  const clusters = new Map<string, ClusterBackups>();
  const add = ({ name, tenant }: Pick<ClusterBackups, "name" | "tenant">, place: string, more: number) => {
    const id = clusterBackupsId({ name, tenant });
    const counts = clusters.get(id)?.counts ?? {};
    clusters.set(id, { name, tenant, counts: { ...counts, [place]: (counts[place] ?? 0) + more } });
  };
  for (const { definition, archives } of found) {
    const place = backupPlace(definition.storage, isShared(definition), node);
    for (const { volname } of archives ?? []) {
      const parsed = parseClusterArchiveName(volname.slice("backup/".length));
      if (parsed !== undefined) add(parsed, place, 1);
    }
    if (archives === undefined)
      for (const each of before) {
        const count = each.counts[place];
        if (count !== undefined) add(each, place, count);
      }
  }
  return clusters;
}

function keyOf({ type, vmid }: { readonly type: string; readonly vmid: number }): string {
  return `${type} ${vmid}`;
}

/** Takes the times up to `until` out of the list, and says how many they were. */
function takeUntil(times: number[] | undefined, until: number): number {
  if (times === undefined) return 0;
  const later = times.filter((time) => time > until);
  const found = times.length - later.length;
  times.splice(0, times.length, ...later);
  return found;
}
