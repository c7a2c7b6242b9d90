// A node with VMs that can be saved and restored: real archives and qemu-nbd, guests that are made up.
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { vmBackup } from "../application/qemu/backup/backup-vm.ts";
import { backupOperation } from "../application/guest/backup/backup-operation.ts";
import { archivedConfigText } from "../application/qemu/chain/open-backup.ts";
import { restoreVmOperation } from "../application/qemu/restore/restore-vm.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { hostBackupTools } from "../infrastructure/backup/host-backup-tools.ts";
import { createBackupHandlers } from "../presentation/pve/backup/backup-handlers.ts";
import { createVmHandlers } from "../presentation/pve/vm/vm-handlers.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { contextOf, type Rights } from "./storage-world.ts";
import { memoryRecords, VmWorld } from "./vm-world.ts";
import { plainPlugins } from "./plain-plugins.ts";

export const EFI_BYTES = 528 * 1024;
export const hasBackupTools = existsSync("/usr/bin/qemu-nbd") && existsSync("/usr/bin/lzop");

export class BackupWorld extends VmWorld {
  readonly engine: OperationEngine;
  readonly logs: MemoryTaskLogs;
  readonly tools: BackupTools;
  readonly handlers: PveHandlers;
  /** The node's own defaults of backups. */
  settings: Record<string, unknown> = {};
  readonly cluster = "lab";
  #second = 0;
  #last = "";

  static override async open(): Promise<BackupWorld> {
    const world = new BackupWorld(await memoryRecords());
    await world.records.transact((tx) => tx.put(poolsDef, "web", { poolid: "web", vms: [105], storage: [] }));
    await world.engine.start();
    return world;
  }

  private constructor(records: Records) {
    super(records);
    const { engine, logs } = testEngine();
    this.engine = engine;
    this.logs = logs;
    const { host } = this;
    // Archives are named by the second; here every backup has one of its own.
    this.tools = {
      ...hostBackupTools({ ...plainPlugins(), clock: systemClock, socketFolder: this.root }),
      localMoment: () => {
        const second = ++this.#second;
        return {
          year: 2026,
          month: 1,
          day: 1,
          hour: 0,
          minute: Math.floor(second / 60),
          second: second % 60,
        };
      },
    };
    engine.register(
      backupOperation({ ...host, backupOf: () => vmBackup(host, this.tools) }, this.tools, (vmid, work) =>
        engine.withResource(`vm/${vmid}`, {}, work),
      ),
    );
    engine.register(restoreVmOperation(host, this.tools));
    this.handlers = {
      ...createBackupHandlers({
        host: {
          configs: host.configs,
          storages: host.storages,
          clock: host.clock,
          clusterName: () => this.cluster,
        },
        tools: this.tools,
        engine,
        poolMembers: (pool) => records.collection(poolsDef).get(pool)?.value.vms,
        settings: () => this.settings,
      }),
      ...createVmHandlers({
        host,
        engine,
        sampled: () => undefined,
        imageStorages: () =>
          this.definitions
            .filter(({ options }) => String(options["content"] ?? "images").includes("images"))
            .map(({ storage }) => storage),
        defaults: () => ({}),
        archivedConfig: (archive) => archivedConfigText(host, this.tools, archive),
      }),
    };
  }

  async close(): Promise<void> {
    await this.engine.stop();
    this.remove();
  }

  dumpFiles(storage = "local"): string[] {
    const folder = join(this.root, storage, "dump");
    return existsSync(folder) ? readdirSync(folder).toSorted() : [];
  }

  dumps(storage?: string): string[] {
    return this.dumpFiles(storage).filter((name) => /\.vma(\.(zst|gz|lzo))?$/.test(name));
  }

  async call(route: keyof PveHandlers, params: object, rights?: Rights | "root"): Promise<string> {
    const ctx = contextOf(rights === "root" ? undefined : rights);
    const root = { userid: "root@pam", authid: "root@pam" };
    const handler = this.handlers[route] as ((params: unknown, context: unknown) => unknown) | undefined;
    this.#last = String(
      await handler?.({ node: "n1", ...params }, rights === "root" ? { ...ctx, actor: root } : ctx),
    );
    return this.#last;
  }

  ask(params: object, rights?: Rights | "root"): Promise<string> {
    return this.call("POST /nodes/{node}/vzdump", params, rights);
  }

  async vzdump(params: object, rights?: Rights | "root"): Promise<OperationView | string> {
    const answer = await this.ask(params, rights);
    return answer === "OK" ? answer : this.engine.wait(answer);
  }

  /** `archive` on storage local. */
  async restore(
    vmid: number,
    archive: string,
    more: object = {},
    rights: Rights | "root" = "root",
  ): Promise<OperationView> {
    const params = { vmid, archive: `local:backup/${archive}`, ...more };
    return this.engine.wait(await this.call("POST /nodes/{node}/qemu", params, rights));
  }

  get lastTask(): string {
    return this.#last;
  }

  /** The lines of the last task. */
  logged(): readonly string[] {
    return this.logs.lines.get(this.#last) ?? [];
  }

  configOf(name: string): Promise<string> {
    return this.call("GET /nodes/{node}/vzdump/extractconfig", { volume: `local:backup/${name}` }, "root");
  }

  content(vmid: number, name: string): Buffer {
    return readFileSync(join(this.root, "local", "images", String(vmid), name));
  }

  /** A VM with a disk that is not empty. */
  async addFilled(vmid: number): Promise<Buffer> {
    const volname = await this.addWithDisk(vmid, { name: "web" }, "raw");
    const data = Buffer.concat([
      Buffer.alloc(300_000),
      randomBytes(200_000),
      Buffer.alloc(1024 * 1024 - 500_000),
    ]);
    writeFileSync(this.storages.find("local").plugin.path(volname), data);
    return data;
  }

  /** QEMU says yes to all that a backup asks, and its exports have this content. */
  playQemu(data: Buffer): void {
    for (const name of [
      "blockdev-add",
      "blockdev-del",
      "transaction",
      "block-job-cancel",
      "nbd-server-start",
      "nbd-server-stop",
      "block-export-add",
    ])
      this.guests.answers.set(name, () => ({}));
    this.guests.answers.set("query-jobs", () => []);
    this.tools.openExport = async (_socket, name) => ({
      size: name === "efidisk0" ? EFI_BYTES : data.length,
      read: async (offset, length) => data.subarray(offset, offset + length),
      extents: async (offset) => [{ length: data.length - offset, isZero: false }],
      write: async () => undefined,
      writeZeroes: async () => undefined,
      flush: async () => undefined,
      close: () => undefined,
    });
    this.tools.createScratch = async () => undefined;
  }
}
