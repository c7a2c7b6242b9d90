// What a node keeps of an etcd that has a standby, beside its data.
//
//   FOLDER/clusters/<name>/etcd-standby.json   what a server said last, and who may have a vote
//   FOLDER/clusters/<name>/peers/              where the members find each other: sockets of etcd and of ours
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  type EtcdPairNote,
  type EtcdPairStart,
  isShared,
  pairSocket,
  pairStart,
} from "@gpve/domain/vcluster/standby/etcd-pair.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { confirmWholeLog } from "./etcd-log.ts";

export interface PreparedPair extends EtcdPairStart {
  /** Where it meets the other one. */
  readonly peers: string;
}

export class EtcdPairFiles {
  /** FOLDER/clusters */
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  note(name: string): EtcdPairNote {
    return (readJsonFile(this.#file(name)) as EtcdPairNote | undefined) ?? {};
  }

  save(name: string, note: EtcdPairNote): void {
    mkdirSync(join(this.#folder, name), { recursive: true, mode: 0o700 });
    writeFileAtomic(this.#file(name), `${JSON.stringify(note)}\n`);
  }

  /** Nobody else has a vote any more. */
  settle(name: string): void {
    const { shared: _shared, hasVote: _vote, ...kept } = this.note(name);
    if (_shared !== undefined) this.save(name, kept);
  }

  peers(name: string): string {
    return join(this.#folder, name, "peers");
  }

  hasSocket(name: string): boolean {
    return existsSync(join(this.peers(name), pairSocket(pairStart(this.note(name)).name)));
  }

  /** How its member, which does not run, is started now. */
  async prepare(name: string): Promise<PreparedPair> {
    const start = pairStart(this.note(name));
    const data = join(this.#folder, name, "etcd");
    if (start.alone !== undefined && existsSync(join(data, "member", "wal"))) confirmWholeLog(data);
    const peers = this.peers(name);
    await makePeers(peers, [start.name]);
    return { ...start, peers };
  }

  /** Its data are others than before, and may know of members that it has not any more: it begins by going on alone. */
  exchanged(name: string): void {
    const note = this.note(name);
    this.save(name, { ...note, shared: note.shared ?? 0 });
  }

  /** Its data are another node's now. */
  forget(name: string): void {
    rmSync(this.#file(name), { force: true });
    rmSync(this.peers(name), { recursive: true, force: true });
  }

  #file(name: string): string {
    return join(this.#folder, name, "etcd-standby.json");
  }
}

/** etcd puts its own sockets there and we ours; neither can take those of the other away. */
export async function makePeers(folder: string, members: readonly string[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await withHeldFile(folder, ({ chmod }) => chmod(0o1777));
  // Those of a process that has ended, under another user perhaps.
  for (const member of members) rmSync(join(folder, pairSocket(member)), { force: true });
}

/** Data of which another node has to confirm what they become are not one's to copy. `folder`: FOLDER/clusters */
export function requireOwn(folder: string, name: string): void {
  if (!isShared(new EtcdPairFiles(folder).note(name))) return;
  throw new AppError(
    "object.conflict",
    `the etcd of virtual cluster '${name}' has a standby that confirms what it writes, and no server has said that it goes on alone: try again`,
  );
}
