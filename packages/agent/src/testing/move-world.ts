// Servers that are asked whose a guest is, made up: their records are the world's own.
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { guestCollection, withOwner } from "@gpve/domain/guest/guest-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { MoveName, MoveServers } from "@gpve/domain/guest/move-servers.ts";

/** Outlives a crash of the node. */
export class MadeUpServers implements MoveServers {
  readonly #records: Records;
  readonly #notes = new Map<string, GuestMove>();
  #turn: Promise<unknown> = Promise.resolve();
  /** What the next questions come to nothing by. */
  readonly failures: Error[] = [];

  constructor(records: Records) {
    this.#records = records;
  }

  allow(vmid: number, moveId: string, to = "n2", more: Pick<GuestMove, "isFar" | "compression"> = {}): void {
    const end = (node: string) => ({ node, address: "127.0.0.1", port: 1, fingerprints: [] });
    this.#notes.set(`${vmid}.${moveId}`, { vmid, id: moveId, from: end("n1"), to: end(to), at: 0, ...more });
  }

  find(vmid: number, moveId: string): GuestMove | undefined {
    return this.#notes.get(`${vmid}.${moveId}`);
  }

  handOver(move: MoveName, conf?: string): Promise<string> {
    return this.#inTurn(() => this.#handOver(move, conf));
  }

  withdraw(move: MoveName): Promise<string> {
    return this.#inTurn(() => this.#withdraw(move));
  }

  /** As transactions are. */
  #inTurn(work: () => Promise<string>): Promise<string> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #handOver({ vmid, moveId }: MoveName, conf?: string): Promise<string> {
    this.#fail();
    const note = this.find(vmid, moveId);
    if (note === undefined) return this.owner(vmid);
    await this.#records.transact((tx) => {
      const guest = tx.get(guestCollection, String(vmid))?.value;
      if (guest !== undefined)
        tx.put(
          guestCollection,
          String(vmid),
          withOwner({ ...guest, conf: conf ?? guest.conf }, note.to.node),
        );
    });
    this.#notes.delete(`${vmid}.${moveId}`);
    return this.owner(vmid);
  }

  async #withdraw({ vmid, moveId }: MoveName): Promise<string> {
    this.#fail();
    this.#notes.delete(`${vmid}.${moveId}`);
    return this.owner(vmid);
  }

  owner(vmid: number): string {
    return this.#records.collection(guestCollection).get(String(vmid))?.value.node ?? "";
  }

  #fail(): void {
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
  }
}
