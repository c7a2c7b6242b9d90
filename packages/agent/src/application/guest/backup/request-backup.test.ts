import { describe, expect, it } from "vitest";
import type { SubmitRequest } from "@gpve/kit/operation/engine.ts";
import { contextOf } from "../../../testing/storage-world.ts";
import {
  requestBackup,
  requestVmBackup,
  type RequestBackupDeps,
  type VmBackupDeps,
} from "./request-backup.ts";

function world() {
  const submitted: SubmitRequest[] = [];
  const cancelled: string[] = [];
  const guests = [
    { vmid: 100, node: "n1" },
    { vmid: 101, node: "n1" },
    { vmid: 200, node: "n2" },
  ];
  const deps = {
    host: {
      configs: {
        node: "n1",
        everywhere: () => guests,
        isTaken: (vmid: number) => guests.some((guest) => guest.vmid === vmid),
        has: (vmid: number) => guests.some((guest) => guest.vmid === vmid && guest.node === "n1"),
      },
      storages: { definition: () => ({ storage: "local", type: "dir", options: {} }) },
      clock: { now: () => 1000 },
      clusterName: () => undefined,
    },
    engine: {
      submit: (submission: SubmitRequest) => {
        submitted.push(submission);
        return Promise.resolve({ upid: "UPID:n1:" });
      },
      cancel: (upid: string) => Promise.resolve(void cancelled.push(upid)),
    },
    poolMembers: (pool: string) => (pool === "web" ? [101, 100] : undefined),
    settings: () => ({ ionice: 5 }),
    underWay: () => ["UPID:old"],
  } as unknown as RequestBackupDeps & VmBackupDeps;
  return { deps, submitted, cancelled };
}

const may = { "/storage/local": ["Datastore.AllocateSpace"], "/vms/100": ["VM.Backup"] };
const joe = contextOf;
const wanted = { vmid: 100, storage: "local", requestId: "r", backup: { compress: "none" } } as const;

describe("a request for backups", () => {
  it("is the same whoever makes it, but for what PVE has no word for", async () => {
    const { deps, submitted } = world();
    await requestBackup({ ...deps, settings: () => ({}) }, { vmid: "100", storage: "local" }, joe(may));
    await requestVmBackup(deps, wanted, joe(may));
    const [pve, v1] = submitted;
    const { submittedAt, commandLine: _line, ...args } = (pve?.args ?? {}) as Record<string, unknown>;
    expect(submittedAt).toBe(1000);
    expect(v1).toMatchObject({ ...pve, requestId: "r", args: { ...args, incremental: true } });
    expect(v1?.args).not.toHaveProperty("submittedAt");
  });

  it("needs the same rights of everybody", async () => {
    const { deps, submitted } = world();
    const { "/storage/local": _storage, ...noStorage } = may;
    const { "/vms/100": _vm, ...noVm } = may;
    for (const [rights, why] of [
      [noStorage, "/storage/local, Datastore.AllocateSpace"],
      [noVm, "/vms/100, VM.Backup"],
    ] as const) {
      await expect(requestBackup(deps, { vmid: "100" }, joe(rights))).rejects.toThrow(why);
      await expect(requestVmBackup(deps, wanted, joe(rights))).rejects.toThrow(why);
    }
    await expect(requestVmBackup(deps, { ...wanted, vmid: 200 }, joe(undefined))).rejects.toThrow(
      "there is no VM 200 on node n1",
    );
    expect(submitted).toEqual([]);
  });

  it("means those of a pool, or all that one may back up, here and elsewhere", async () => {
    const { deps, submitted } = world();
    await requestBackup(deps, { pool: "web" }, joe(undefined));
    await requestBackup(deps, { all: true }, joe(may));
    await expect(requestBackup(deps, { pool: "db" }, joe(undefined))).rejects.toThrow("does not exist");
    expect(submitted.map(({ args }) => args)).toMatchObject([
      { vmids: [100, 101], skipped: [], ionice: 5 },
      { vmids: [100], skipped: [200] },
    ]);
  });

  it("may end those that are under way, and is none when nobody is meant", async () => {
    const { deps, submitted, cancelled } = world();
    expect(await requestBackup(deps, { vmid: "200" }, joe(undefined))).toBe("OK");
    expect(await requestBackup(deps, { stop: true }, joe(undefined))).toBe("OK");
    expect([submitted, cancelled]).toEqual([[], ["UPID:old"]]);
  });
});
