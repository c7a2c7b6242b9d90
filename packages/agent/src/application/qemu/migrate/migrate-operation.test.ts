// Moving a stopped VM, cut off and failed at every point: one node has it, always.
import { clusterCollection, DATACENTER_OPTIONS } from "@gpve/domain/cluster/datacenter-options.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { expect, it } from "vitest";
import { contextOf } from "../../../testing/storage-world.ts";
import { MadeUpServers } from "../../../testing/move-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { noOtherNodes } from "../../guest/move-ports.ts";
import { migrateVmOperation, type MigratePorts } from "./migrate-operation.ts";
import { requestMigrate } from "./migrate-request.ts";

const args = { vmid: 100, moveId: "m", target: "n2", online: false, withLocalDisks: false };

interface World {
  readonly world: VmWorld;
  readonly servers: MadeUpServers;
  readonly host: MigratePorts;
}

async function movingWorld(values: Record<string, string> = { name: "g" }): Promise<World> {
  const world = await VmWorld.open();
  await world.add(100, values);
  const servers = new MadeUpServers(world.records);
  servers.allow(100, "m");
  const { peers } = noOtherNodes("n1");
  const moves = { peers, servers, find: (vmid: number, id: string) => servers.find(vmid, id) };
  // Nobody waits here for what never comes.
  const clock = { ...systemClock, sleep: async () => undefined };
  return { world, servers, host: { ...world.host, clock, moves } };
}

it("ends with one owner, wherever it is cut off", () =>
  testSaga<World>({
    prepare: () => movingWorld(),
    define: (engine, { host }) => {
      engine.register(migrateVmOperation(host));
      return { type: "qmigrate", args, resources: ["vm/100"] };
    },
    check: ({ servers }, outcome) => {
      // A step that fails after the hand-over does not bring the guest back.
      expect(outcome === "done" ? ["n2"] : ["n1", "n2"]).toContain(servers.owner(100));
      expect(servers.find(100, "m")).toBeUndefined();
    },
    cleanup: ({ world }) => world.remove(),
  }));

async function moved(
  prepare: (world: World) => unknown,
  values?: Record<string, string>,
  params: object = {},
) {
  const made = await movingWorld(values);
  await prepare(made);
  const { engine, logs } = testEngine();
  engine.register(migrateVmOperation(made.host));
  await engine.start();
  try {
    const upid = await requestMigrate(
      { host: made.host, engine },
      { node: "n1", vmid: 100, target: "n2", ...params },
      { ...contextOf(undefined), actor: { userid: "root@pam", authid: "root@pam" }, requestId: "m" },
    );
    const ended = await engine.wait(upid);
    return { ...ended, owner: made.servers.owner(100), said: logs.lines.get(upid) ?? [] };
  } finally {
    await engine.stop();
    made.world.remove();
  }
}

const away = (): AppError => new AppError("store.unavailable", "no server");

it("asks again while no server answers, and believes what is true then", async () => {
  expect(await moved(({ servers }) => servers.failures.push(away(), away()))).toMatchObject({
    state: "failed",
    owner: "n1",
  });
  expect(await moved(() => undefined)).toMatchObject({ state: "done", owner: "n2" });
});

it("moves nothing that no server has allowed", async () => {
  const ended = await moved(({ servers }) => void servers.withdraw(args));
  expect(ended).toMatchObject({ state: "failed", owner: "n1" });
  expect(ended.exitStatus).toContain("no server has allowed the move of VM 100");
});

it("says of what was asked for, here or for the whole datacenter, that it has no effect", async () => {
  const about = async (migration: string | undefined, params: object) => {
    const set = async ({ world }: World): Promise<void> => {
      if (migration === undefined) return;
      await world.records.transact((tx) => tx.put(clusterCollection, DATACENTER_OPTIONS, { migration }));
    };
    const { said, state } = await moved(set, undefined, params);
    expect(state).toBe("done");
    return said.filter((line) => line.includes("has no effect: "));
  };
  const all = { migration_type: "insecure", migration_network: "10.0.0.0/8", "with-conntrack-state": true };
  expect(await about(undefined, {})).toEqual([]);
  expect(await about(undefined, all)).toEqual([
    expect.stringContaining("migration type 'insecure'"),
    expect.stringContaining("migration network '10.0.0.0/8'"),
    expect.stringContaining("with-conntrack-state"),
  ]);
  expect(await about("type=insecure,network=10.1.0.0/16", {})).toHaveLength(2);
  expect(await about("insecure", { migration_type: "secure" })).toEqual([]);
});

it("leaves a VM with a disc that only this node has", async () => {
  const ended = await moved(() => undefined, { ide2: "local:iso/a.iso,media=cdrom" });
  expect(ended.exitStatus).toContain("can't migrate local disk 'local:iso/a.iso' (ide2): a disc in a drive");
});

it("refuses before it begins what PVE refuses", async () => {
  const { world, host } = await movingWorld({ lock: "backup" });
  const { engine } = testEngine();
  const ask = (more: object) =>
    requestMigrate({ host, engine }, { node: "n1", vmid: 100, target: "n2", ...more }, contextOf(undefined));
  await expect(ask({})).rejects.toThrow("VM is locked (backup)");
  await expect(ask({ target: "n1" })).rejects.toThrow("Parameter verification failed");
  await expect(ask({ vmid: 101 })).rejects.toThrow("does not exist");
  world.remove();
});

it("a node by itself refuses a move at once, and calls off one that it finds begun", async () => {
  const { world, host: cluster } = await movingWorld();
  const host = { ...cluster, moves: { ...noOtherNodes("n1"), find: () => undefined } };
  const { engine } = testEngine();
  engine.register(migrateVmOperation(host));
  await engine.start();
  const ask = { node: "n1", vmid: 100, target: "node-02", online: true };
  const { requireOthers: _passed, ...moves } = host.moves;
  try {
    await expect(requestMigrate({ host, engine }, ask, contextOf(undefined))).rejects.toThrow(
      "no such cluster node 'node-02'",
    );
    const begun = await requestMigrate({ host: { ...host, moves }, engine }, ask, contextOf(undefined));
    const { state, exitStatus } = await engine.wait(begun);
    expect(state).toBe("failed");
    expect(exitStatus).toContain("no server has allowed the move of VM 100 to node 'node-02'");
  } finally {
    await engine.stop();
    world.remove();
  }
});
