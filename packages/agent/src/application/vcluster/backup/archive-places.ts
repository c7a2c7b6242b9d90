// Storages of this node as places for archives of virtual clusters.
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { markBackups, parseKeepOptions } from "@gpve/domain/storage/prune.ts";
import { requireVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { parseClusterArchiveName } from "@gpve/domain/vcluster/backup/archive-name.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { civilTime, secondsOf } from "../../storage/local-time.ts";
import type { NodeStorages } from "../../storage/node-storages.ts";

export interface ArchiveRow {
  readonly file: string;
  readonly volid: string;
  readonly sizeBytes: number;
  /** Seconds since 1970. */
  readonly time: number;
  readonly notes?: string;
  readonly protected?: boolean;
}

interface Owner {
  readonly name: string;
  readonly tenant: string;
}

export interface ArchivePlace {
  path(file: string): string;
  volid(file: string): string;
  /** Those of one cluster, oldest first. */
  list(owner: Owner): Promise<readonly ArchiveRow[]>;
  note(file: string, about: { readonly notes: string; readonly protected?: boolean }): Promise<void>;
  /** One that is not there is no error. */
  remove(file: string): Promise<void>;
  /** Those that the rules do not keep; without any, the storage's own. */
  outdated(owner: Owner, rules?: string): Promise<readonly string[]>;
}

export class ArchivePlaces {
  readonly #storages: Pick<NodeStorages, "open" | "definitions" | "isEnabled">;
  readonly #log: Pick<Logger, "warn">;

  constructor(storages: Pick<NodeStorages, "open" | "definitions" | "isEnabled">, log: Pick<Logger, "warn">) {
    this.#storages = storages;
    this.#log = log;
  }

  /** A storage that may have backups, ready. */
  async open(storage: string): Promise<ArchivePlace> {
    const { plugin, definition } = await this.#storages.open(storage, "backup");
    const keep = definition.options["prune-backups"];
    return placeOn(plugin, typeof keep === "string" ? keep : undefined);
  }

  /** The file of an archive; throws where it is not there. */
  async file(volid: string): Promise<string> {
    const { storage, volname } = requireVolumeId(volid);
    const { plugin } = await this.#storages.open(storage, "backup");
    return plugin.file(volname);
  }

  /** Of all storages that this node has and that are there, oldest first. */
  async list(owner: Owner): Promise<readonly ArchiveRow[]> {
    const storages = this.#storages
      .definitions()
      .filter((each) => this.#storages.isEnabled(each) && contentOf(each).has("backup"));
    const rows: ArchiveRow[] = [];
    const failures: unknown[] = [];
    for (const { storage } of storages)
      try {
        rows.push(...(await (await this.open(storage)).list(owner)));
      } catch (err) {
        // What the others have is what is asked for while it is away.
        failures.push(err);
        this.#log.warn({ storage, err: messageOf(err) }, "backups of virtual clusters on it are not shown");
      }
    if (failures.length > 0 && failures.length === storages.length) throw failures[0];
    return rows.toSorted((a, b) => a.time - b.time);
  }
}

function placeOn(plugin: StoragePlugin, keep: string | undefined): ArchivePlace {
  const volid = (file: string): string => `${plugin.storage}:backup/${file}`;
  const list = async ({ name, tenant }: Owner): Promise<readonly ArchiveRow[]> => {
    const rows = await plugin.list({ content: ["backup"] });
    return rows
      .map(({ volname, size, ctime, notes, protected: isProtected }) => {
        const file = volname.slice("backup/".length);
        const parsed = parseClusterArchiveName(file);
        const isOwn = parsed?.name === name && parsed.tenant === tenant;
        const time = parsed === undefined ? ctime : secondsOf(parsed.time);
        return { isOwn, file, volid: volid(file), sizeBytes: size, time, notes, protected: isProtected };
      })
      .filter(({ isOwn }) => isOwn)
      .map(({ isOwn: _own, notes, protected: isProtected, ...row }) => ({
        ...row,
        ...given({ notes }),
        ...(isProtected === true ? { protected: true } : {}),
      }))
      .toSorted((a, b) => a.time - b.time);
  };
  return {
    path: (file) => `${plugin.backupFolder()}/${file}`,
    volid,
    list,
    async note(file, { notes, protected: isProtected = false }) {
      await plugin.setNotes(`backup/${file}`, notes);
      if (isProtected) await plugin.setProtected(`backup/${file}`, true);
    },
    async remove(file) {
      await plugin.free(`backup/${file}`);
    },
    async outdated(owner, asked = keep) {
      if (asked === undefined) return [];
      const rules = parseKeepOptions(asked);
      if (rules["keep-all"] === true) return [];
      const candidates = (await list(owner)).map((row) => ({
        volid: row.volid,
        file: row.file,
        ctime: row.time,
        type: "vc",
        standard: true,
        protected: row.protected === true,
      }));
      return markBackups(candidates, rules, civilTime)
        .filter(({ mark }) => mark === "remove")
        .map(({ file }) => file);
    },
  };
}
