// The storages as this node has them: definitions of the cluster, joined with what is really there.
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { StorageRuntime } from "@gpve/domain/node/runtime.ts";
import type { VolumeType } from "@gpve/domain/storage/content.ts";
import {
  contentOf,
  isDisabled,
  servesNode,
  type StorageDefinition,
} from "@gpve/domain/storage/definition.ts";
import { implementedTypes } from "@gpve/domain/storage/storage-types.ts";
import { storageMissing, storageRefused } from "@gpve/domain/storage/failures.ts";
import type { StoragePlugin, StorageStatus } from "@gpve/domain/storage/plugin.ts";
import type { VolumeName } from "@gpve/domain/storage/volume-name.ts";
import { requireVolumeId } from "@gpve/domain/storage/volume-id.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface NodeStoragesDeps {
  readonly node: string;
  readonly definitions: () => readonly StorageDefinition[];
  /** `secrets`: of one that is about to be defined; of others they are asked for. */
  readonly pluginFor: (
    definition: StorageDefinition,
    secrets?: Readonly<Record<string, string>>,
  ) => StoragePlugin;
  readonly clock: Clock;
  /** Throws when a storage that is about to be defined would be in a place that is not its to have. */
  readonly guard: (definition: StorageDefinition) => Promise<void>;
  readonly onProblem: (storage: string, problem: string) => void;
}

export interface StorageAttempt {
  readonly onlyPlace?: boolean;
  readonly secrets?: Readonly<Record<string, string>>;
}

export interface OpenStorage {
  readonly definition: StorageDefinition;
  readonly plugin: StoragePlugin;
}

export interface OpenVolume extends OpenStorage {
  readonly volid: string;
  readonly volname: string;
  readonly name: VolumeName;
}

interface Known {
  readonly definition: StorageDefinition;
  readonly plugin: StoragePlugin;
  status: StorageStatus;
  checkedAt: number;
  problem: string | undefined;
  /** Whether a first look at it has ended, however it did. */
  isSeen: boolean;
  readonly seen: PromiseWithResolvers<void>;
}

const INACTIVE: StorageStatus = { active: false, total: 0, used: 0, avail: 0 };
const FRESH_MS = 10_000;
/** A report waits this long for first looks: one that hangs is told as not active, and a later report has it. */
const FIRST_LOOK_MS = 1_500;

export class NodeStorages {
  readonly #deps: NodeStoragesDeps;
  readonly #known = new Map<string, Known>();

  constructor(deps: NodeStoragesDeps) {
    this.#deps = deps;
  }

  get node(): string {
    return this.#deps.node;
  }

  definitions(): readonly StorageDefinition[] {
    return this.#deps.definitions();
  }

  isEnabled(definition: StorageDefinition): boolean {
    return !isDisabled(definition) && servesNode(definition, this.#deps.node);
  }

  enabledFor(content: VolumeType): readonly string[] {
    return this.definitions().flatMap((each) =>
      this.isEnabled(each) && contentOf(each).has(content) ? [each.storage] : [],
    );
  }

  /** An enabled storage of this node, activated. Throws with PVE's texts. */
  async open(storage: string, content?: VolumeType): Promise<OpenStorage> {
    const found = this.find(storage, content);
    try {
      await found.plugin.activate();
    } catch (err) {
      // What was seen of it before is not so any more; it may have been defined anew meanwhile.
      const known = this.#known.get(storage);
      if (known?.definition === found.definition) known.checkedAt = Number.NEGATIVE_INFINITY;
      throw err;
    }
    return found;
  }

  /** The same without touching the storage. */
  find(storage: string, content?: VolumeType): OpenStorage {
    const definition = this.definitions().find((each) => each.storage === storage);
    if (definition === undefined) throw storageMissing(`storage '${storage}' does not exist`);
    if (isDisabled(definition)) throw storageRefused(`storage '${storage}' is disabled`);
    if (!servesNode(definition, this.#deps.node)) {
      throw storageRefused(`storage '${storage}' is not available on node '${this.#deps.node}'`);
    }
    if (content !== undefined && !contentOf(definition).has(content)) {
      throw storageRefused(`storage '${storage}' does not support content-type '${content}'`);
    }
    return { definition, plugin: this.#remember(definition).plugin };
  }

  /** Looks where a storage that is not defined yet would be, and activates it if it would be used here. */
  async attempt(
    definition: StorageDefinition,
    { onlyPlace = false, secrets = {} }: StorageAttempt = {},
  ): Promise<void> {
    if (servesNode(definition, this.#deps.node)) await this.#deps.guard(definition);
    if (!onlyPlace && this.isEnabled(definition)) await this.#deps.pluginFor(definition, secrets).activate();
  }

  volume(volid: string): OpenVolume {
    const { storage, volname } = requireVolumeId(volid);
    const found = this.find(storage);
    return { ...found, volid, volname, name: found.plugin.parse(volname) };
  }

  /** From memory while it is fresh. A storage that cannot be used is inactive, never an error. */
  async status(definition: StorageDefinition): Promise<StorageStatus> {
    if (!this.isEnabled(definition) || !implementedTypes.has(definition.type)) return INACTIVE;
    const known = this.#remember(definition);
    const now = this.#deps.clock.now();
    if (now - known.checkedAt >= FRESH_MS) await this.#check(known, now);
    return known.status;
  }

  async refresh(): Promise<void> {
    const definitions = this.definitions();
    for (const storage of this.#known.keys()) {
      if (!definitions.some((each) => each.storage === storage)) this.#forget(storage);
    }
    await Promise.all(definitions.map((definition) => this.status(definition)));
  }

  /**
   * The same for those who judge the node by it. Storages that nobody has looked at yet, as all are when the node has just
   * come up, are looked at first.
   */
  async reported(): Promise<StorageRuntime[]> {
    const unseen = this.definitions()
      .filter((definition) => this.isEnabled(definition) && implementedTypes.has(definition.type))
      .map((definition) => this.#remember(definition))
      .filter(({ isSeen }) => !isSeen);
    if (unseen.length === 0) return this.runtimes();
    const enough = Promise.withResolvers<void>();
    const cancel = this.#deps.clock.after(FIRST_LOOK_MS, () => {
      // One report waits for it, not every one.
      for (const known of unseen) known.isSeen = true;
      enough.resolve();
    });
    const looks = unseen.map(async ({ definition, seen }) => {
      await this.status(definition);
      await seen.promise;
    });
    await Promise.race([Promise.all(looks), enough.promise]);
    cancel();
    return this.runtimes();
  }

  /** What the last look at each enabled storage found. */
  runtimes(): StorageRuntime[] {
    return this.definitions()
      .filter((definition) => this.isEnabled(definition))
      .map((definition) => {
        const known = this.#known.get(definition.storage);
        const status = known?.definition === definition ? known.status : INACTIVE;
        return {
          storage: definition.storage,
          active: status.active,
          totalBytes: status.total,
          usedBytes: status.used,
          availBytes: status.avail,
          ...given({ problem: known?.definition === definition ? known.problem : undefined }),
        };
      });
  }

  #forget(storage: string): void {
    const known = this.#known.get(storage);
    this.#known.delete(storage);
    known?.plugin.deactivate().catch((err: unknown) => this.#deps.onProblem(storage, messageOf(err)));
  }

  #remember(definition: StorageDefinition): Known {
    const known = this.#known.get(definition.storage);
    if (known?.definition === definition) return known;
    const fresh: Known = {
      definition,
      plugin: this.#deps.pluginFor(definition),
      status: INACTIVE,
      checkedAt: Number.NEGATIVE_INFINITY,
      problem: undefined,
      isSeen: false,
      seen: Promise.withResolvers(),
    };
    this.#known.set(definition.storage, fresh);
    return fresh;
  }

  async #check(known: Known, now: number): Promise<void> {
    known.checkedAt = now;
    try {
      await known.plugin.activate();
      known.status = await known.plugin.status();
      known.problem = undefined;
    } catch (err) {
      known.status = INACTIVE;
      const problem = messageOf(err);
      if (problem !== known.problem) this.#deps.onProblem(known.definition.storage, problem);
      known.problem = problem;
    }
    known.isSeen = true;
    known.seen.resolve();
  }
}
