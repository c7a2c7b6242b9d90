// Servers that manage HA over nodes that are told what they do: records and time are real, nodes are notes of them.
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import {
  commandCollection,
  evidenceCollection,
  localCollection,
  localId,
  managerCollection,
  MANAGER_STATUS_ID,
} from "@gpve/domain/ha/collections.ts";
import type { ServiceStatus } from "@gpve/domain/ha/model.ts";
import { leaseCollection, leaseId, nextLease } from "@gpve/domain/ha/node-lease.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { MovableGuests } from "../application/guest/movable-guests.ts";
import { HaConfig } from "../application/ha/ha-config.ts";
import { HaRules } from "../application/ha/ha-rules.ts";
import { HaStatus } from "../application/ha/ha-status.ts";
import { keepManager } from "../application/ha/keep-manager.ts";
import { ManagerEnvironment, type ManagerEnvironmentDeps } from "../application/ha/manager-environment.ts";
import { MemoryRecords } from "./memory-records.ts";

const GIB = 1024 ** 3;

export class HaWorld {
  readonly clock = new FakeClock();
  readonly records = new MemoryRecords();
  readonly nodes = ["n1", "n2", "n3"];
  readonly config: HaConfig;
  readonly rules: HaRules;
  readonly status: HaStatus;
  readonly movable: MovableGuests;
  readonly memoryOf = new Map<string, number>();
  /** Nodes that give signs of life, and carry out what they are told. */
  readonly alive = new Set(this.nodes);
  /** Guests that no report tells of yet. */
  readonly unreported = new Set<number>();
  /** Nodes where the storage of all is not mounted. */
  readonly withoutShared = new Set<string>();
  bridgesOf = (_node: string): readonly string[] => ["vmbr0"];
  readonly #stop = new AbortController();
  readonly #managers: Promise<void>[] = [];

  constructor() {
    const { records, clock } = this;
    const nodes = (): readonly string[] => this.nodes;
    this.config = new HaConfig({
      records,
      clock,
      knowsNode: (node) => this.nodes.includes(node),
      isOffline: (node) => !this.alive.has(node),
    });
    this.rules = new HaRules(records, this.config, nodes);
    this.status = new HaStatus({ records, clock, localNode: "n1", quorate: () => true, nodes });
    const guests = records.collection(guestCollection);
    this.movable = new MovableGuests({
      board: this.board(),
      ha: this.rules,
      storages: () => valuesOf(records, storageCollection),
      mappings: () => [],
      guest: (vmid) => {
        const record = guests.get(String(vmid))?.value;
        return record && { record, config: parseVmConfig(record.conf, { vmid, digestOf: () => "" }) };
      },
    });
  }

  async guest(vmid: number, node: string, more = ""): Promise<void> {
    const conf = `memory: 1024\nscsi0: shared:${vmid}/disk.raw,size=1G\n${more}`;
    const shared = { storage: "shared", type: "dir", options: { path: "/s", shared: true } };
    await this.records.transact((tx) => {
      tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node, conf }));
      tx.put(storageCollection, "shared", shared as never);
    });
  }

  serve(node: string, more: Partial<ManagerEnvironmentDeps> = {}): AbortController {
    const stop = new AbortController();
    const { records, clock } = this;
    const environment = new ManagerEnvironment({
      node,
      holder: `${node}/1`,
      records,
      clock,
      log: silentLogger,
      board: this.board(),
      nodes: () => this.nodes,
      ...more,
    });
    const signal = AbortSignal.any([stop.signal, this.#stop.signal]);
    this.#managers.push(keepManager({ environment, records, clock, log: silentLogger }, signal));
    return stop;
  }

  /** Seconds pass: living nodes renew every two of them and do what the manager wants. */
  async pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      await this.clock.advance(1_000);
      for (const node of this.alive) await this.#live(node, second % 2 === 0);
    }
  }

  service(sid: string): ServiceStatus | undefined {
    return this.records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value.services[sid];
  }

  ownerOf(vmid: number): string | undefined {
    return this.records.collection(guestCollection).get(String(vmid))?.value.node;
  }

  /** What the manager is told and has not read. */
  commands(): readonly string[] {
    return this.records
      .collection(commandCollection)
      .list()
      .map(({ value }) => value.line);
  }

  said(): string {
    return this.records
      .collection(evidenceCollection)
      .list()
      .flatMap(({ value }) => value.lines.map(({ text }) => text))
      .join("\n");
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error("over"));
    await this.clock.advance(5_000);
    await Promise.all(this.#managers);
  }

  /** All guests run but those that no report tells of. */
  board(): NodeBoard {
    const view = (node: string) =>
      ({
        node,
        health: this.alive.has(node) ? "online" : "offline",
        facts: {
          cpu: { cpus: 4 },
          memoryBytes: this.memoryOf.get(node) ?? 8 * GIB,
          bridges: this.bridgesOf(node),
        },
        report: {
          usage: { memory: { available: 8 * GIB } },
          storages: [
            { storage: "shared", active: !this.withoutShared.has(node) },
            { storage: "local", active: true },
          ],
          guests: this.records
            .collection(guestCollection)
            .list()
            .filter(({ value }) => value.node === node && !this.unreported.has(value.vmid))
            .map(({ value }) => ({ vmid: value.vmid, cpu: 0.5, mem: 100 })),
        },
      }) as unknown as NodeView;
    return {
      list: () => this.nodes.map(view),
      get: (node) => (this.nodes.includes(node) ? view(node) : undefined),
      generation: () => 0,
    };
  }

  async #live(node: string, renews: boolean): Promise<void> {
    const { records } = this;
    const manager = records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value;
    const services = Object.values(manager?.services ?? {}).filter((each) => each.node === node);
    const hold = services.some(({ state }) => !["stopped", "freeze", "error"].includes(state));
    await records.transact((tx) => {
      const lease = tx.get(leaseCollection, leaseId(node))?.value;
      if (renews)
        tx.put(
          leaseCollection,
          leaseId(node),
          nextLease(node, lease, { hold, mayTake: true }, this.clock.now()),
        );
      const results = services.map(({ uid }) => [uid, { sid: "", exit: "success" as const }] as const);
      const local = {
        state: hold ? "active" : "wait_for_agent_lock",
        mode: manager?.maintenance[node] === true ? "maintenance" : "active",
        guarded: true,
      } as const;
      tx.put(localCollection, localId(node), { ...local, results: Object.fromEntries(results) });
    });
  }
}
