import { afterEach, beforeEach, expect, it } from "vitest";
import {
  managerCollection,
  MANAGER_STATUS_ID,
  resourceCollection,
  ruleCollection,
  type HaResource,
} from "@gpve/domain/ha/collections.ts";
import { emptyManagerStatus } from "@gpve/domain/ha/model.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { SchedulerWorld } from "../../testing/scheduler-world.ts";

let world: SchedulerWorld;
beforeEach(async () => {
  world = await SchedulerWorld.with(["n1", "n2", "n3"]);
});
afterEach(() => world.stop());

const GiB = 1024;
/** A running guest on n1, under HA. */
const guest = async (vmid: number, memoryMiB: number, more = "", ha: Partial<HaResource> = {}) => {
  await world.guest(vmid, "n1", `cores: 1\nmemory: ${memoryMiB}\n${more}`);
  const running = world.records.collection(guestCollection).list();
  world.report(
    "n1",
    running.map(({ value }) => value.vmid),
  );
  await world.records.transact((tx) =>
    tx.put(resourceCollection, `vm:${vmid}`, {
      sid: `vm:${vmid}`,
      state: "started",
      maxRestart: 1,
      maxRelocate: 1,
      failback: true,
      autoRebalance: false,
      ...ha,
    }),
  );
};
const lose = (...nodes: string[]) => world.scheduler.explain.nodeLoss(nodes);

it("goes by HA's order of start, its rules and its idea of memory", async () => {
  await guest(100, 5 * GiB, "startup: order=9\n");
  await guest(101, 5 * GiB, "startup: order=2\n");
  await guest(102, 4 * GiB, "startup: order=1\n");
  await guest(103, 1 * GiB);
  await world.records.transact((tx) =>
    tx.put(ruleCollection, "home", {
      rule: "home",
      type: "node-affinity",
      resources: ["vm:102", "vm:103"],
      nodes: "n3",
      strict: true,
      order: 1,
    }),
  );
  const { restarted, stranded, down } = lose("n1");
  expect(restarted.map(({ guest: id, to }) => `${id} ${to}`)).toEqual([
    "vm/102 n3",
    "vm/101 n2",
    "vm/103 n3",
  ]);
  expect(stranded).toMatchObject([
    {
      guest: "vm/100",
      verdicts: [
        { node: "n2", refusals: [{ why: "it needs 5120 MiB of memory, 2816 MiB are free" }] },
        { node: "n3", refusals: [{ why: "it needs 5120 MiB of memory, 3840 MiB are free" }] },
      ],
    },
  ]);
  expect(down).toEqual([]);
  expect(lose("n1", "n3").stranded).toMatchObject([
    { guest: "vm/102", verdicts: [{ node: "n2", refusals: [{ why: "its HA rules keep it from there" }] }] },
    { guest: "vm/100" },
    { guest: "vm/103" },
  ]);
  expect(world.records.collection(guestCollection).get("101")?.value.node).toBe("n1");
});

it("says of guests that HA would not start elsewhere why", async () => {
  await guest(100, GiB);
  await guest(101, GiB, "", { state: "ignored" });
  await guest(102, GiB);
  await guest(103, GiB, "scsi0: local:103/a.raw,size=1G\n");
  const status = emptyManagerStatus();
  const services = { "vm:102": { state: "error", node: "n1", uid: "a" } } as const;
  const manage = (more: object): Promise<void> =>
    world.records.transact((tx) =>
      tx.put(managerCollection, MANAGER_STATUS_ID, { ...status, services, ...more }),
    );
  await manage({});
  const { restarted, stranded, down } = lose("n1");
  expect(restarted.map(({ guest: id }) => id)).toEqual(["vm/100"]);
  expect(stranded).toMatchObject([{ guest: "vm/103", verdicts: [{}, {}] }]);
  expect(stranded[0]?.verdicts[0]?.refusals[0]?.why).toContain("local");
  expect(down).toMatchObject([
    { guest: "vm/101", why: "HA is told to have it ignored" },
    { guest: "vm/102", why: "HA has given it up: its state is error" },
  ]);
  await manage({ disarm: { mode: "freeze", state: "disarmed" } });
  expect(lose("n1").down.map(({ why }) => why)).toEqual(Array(4).fill("HA is disarmed: gpvectl ha arm"));
});

it("counts on no node that is in maintenance, and on a cordoned one last", async () => {
  await guest(100, GiB);
  await world.node("n2", { unschedulable: true });
  expect(lose("n1").restarted).toMatchObject([{ to: "n3" }]);
  await world.records.transact((tx) =>
    tx.put(managerCollection, MANAGER_STATUS_ID, { ...emptyManagerStatus(), maintenance: { n3: true } }),
  );
  expect(lose("n1").restarted).toMatchObject([{ to: "n2" }]);
});
