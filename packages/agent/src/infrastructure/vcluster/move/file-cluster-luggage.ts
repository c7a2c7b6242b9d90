// What a control plane takes to another node, as files:
//
//   pki/    its keys                         FOLDER/clusters/<name>/pki
//   audit/  who asked it for what            FOLDER/clusters/<name>/audit
//   etcd/   an etcd of its own               FOLDER/clusters/<name>/etcd
//   db/     its database                     FOLDER/store/db/<name>
//
// What comes lies in FOLDER/arrivals/<name>/files until it is unpacked; arrival.json beside it says what was announced.
import { existsSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type {
  ClusterArrival,
  ClusterLuggage,
  ClusterWriter,
  MovedFile,
} from "@gpve/domain/vcluster/move/cluster-moves.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { createPlainFile } from "@gpve/kit/held-file.ts";
import { bytesOf } from "../plain-bytes.ts";
import { EtcdPairFiles, requireOwn } from "../standby/etcd-pair-files.ts";

export interface FileClusterLuggageDeps {
  /** DIR/vclusters */
  readonly folder: string;
  /** Resolves when nobody has the database of that cluster open. */
  readonly closed: (name: string, signal: AbortSignal) => Promise<void>;
}

/** Names of files that may come; each part is a plain name. */
const MEMBER = /^(?:pki|audit|etcd|db)(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]*){1,6}$/;
/** Made anew wherever it is. */
const NOT_TAKEN = /\.kubeconfig$/;
const MOST_FILES = 10_000;

export class FileClusterLuggage implements ClusterLuggage {
  readonly #deps: FileClusterLuggageDeps;

  constructor(deps: FileClusterLuggageDeps) {
    this.#deps = deps;
  }

  async pack({ name, spec }: KeptCluster, signal: AbortSignal): Promise<readonly MovedFile[]> {
    if (spec.backingStore === "sqlite") await this.#deps.closed(name, signal);
    if (spec.backingStore === "etcd") requireOwn(join(this.#deps.folder, "clusters"), name);
    return Object.entries(this.#homes(name)).flatMap(([group, folder]) =>
      filesBelow(folder)
        .map((file) => ({ name: `${group}/${file}`, path: join(folder, file) }))
        .filter((file) => !NOT_TAKEN.test(file.name))
        .map((file) => ({
          name: file.name,
          size: lstatSync(file.path).size,
          body: bytesOf(file.path),
        })),
    );
  }

  announce(arrival: ClusterArrival): void {
    const { name } = arrival.cluster;
    if (this.arrival(name)?.moveId === arrival.moveId) return;
    this.forget(name);
    mkdirSync(this.#arrivals(name), { recursive: true, mode: 0o700 });
    writeFileAtomic(this.#arrivals(name, "arrival.json"), `${JSON.stringify(arrival)}\n`);
  }

  arrival(name: string): ClusterArrival | undefined {
    return readJsonFile(this.#arrivals(name, "arrival.json")) as ClusterArrival | undefined;
  }

  isWhole(name: string): boolean {
    return existsSync(this.#arrivals(name, "files"));
  }

  async begin({ vcluster = "", id }: GuestMove): Promise<ClusterWriter> {
    if (this.arrival(vcluster)?.moveId !== id || this.isWhole(vcluster))
      throw new AppError("object.conflict", `virtual cluster '${vcluster}' is not expected here`);
    const folder = this.#arrivals(vcluster, "coming");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { mode: 0o700 });
    let count = 0;
    return {
      take: async ({ name, body }) => {
        if (!MEMBER.test(name) || ++count > MOST_FILES)
          throw new AppError("request.invalid", `'${name}' is nothing that a control plane takes along`);
        const path = join(folder, name);
        mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
        await writeAll(path, body);
      },
      finish: async () => {
        for (const each of foldersBelow(folder)) await syncFolder(each);
        renameSync(folder, this.#arrivals(vcluster, "files"));
        await syncFolder(this.#arrivals(vcluster));
      },
      abandon: async () => rmSync(folder, { recursive: true, force: true }),
    };
  }

  unpack({ name }: KeptCluster): void {
    for (const [group, folder] of Object.entries(this.#homes(name))) {
      const come = this.#arrivals(name, "files", group);
      // What has none has been unpacked already, or nothing of the kind has come.
      if (!existsSync(come)) continue;
      mkdirSync(dirname(folder), { recursive: true, mode: 0o700 });
      rmSync(folder, { recursive: true, force: true });
      if (group === "etcd") new EtcdPairFiles(join(this.#deps.folder, "clusters")).exchanged(name);
      renameSync(come, folder);
    }
  }

  forget(name: string): void {
    rmSync(this.#arrivals(name), { recursive: true, force: true });
  }

  #homes(name: string): Readonly<Record<"pki" | "audit" | "etcd" | "db", string>> {
    const own = (part: string): string => join(this.#deps.folder, "clusters", name, part);
    const db = join(this.#deps.folder, "store", "db", name);
    return { pki: own("pki"), audit: own("audit"), etcd: own("etcd"), db };
  }

  #arrivals(name: string, ...more: readonly string[]): string {
    return join(this.#deps.folder, "arrivals", name, ...more);
  }
}

/** Relative to it; links and sockets are none. */
function filesBelow(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      if (entry.isDirectory())
        return filesBelow(join(folder, entry.name)).map((file) => `${entry.name}/${file}`);
      return entry.isFile() ? [entry.name] : [];
    });
}

function foldersBelow(folder: string): readonly string[] {
  const below = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return [...below.flatMap(({ name }) => foldersBelow(join(folder, name))), folder];
}

async function writeAll(path: string, body: AsyncIterable<Uint8Array>): Promise<void> {
  const file = await createPlainFile(path, 0o600);
  try {
    for await (const chunk of body) await file.writeFile(chunk);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
