import { expect, it } from "vitest";
import { backupRunCollection, runId } from "./backup-runs.ts";
import { openBackupJobWorld, type BackupJobWorld } from "../../testing/backup-job-world.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;

/** Runs what starts jobs until the test is done. */
function running(world: BackupJobWorld, due = world.due): AsyncDisposable {
  const stop = new AbortController();
  const run = due.run(stop.signal);
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort(new Error("done"));
      await run;
    },
  };
}

const asked = (world: BackupJobWorld): string[] =>
  world.calls.map(({ params }) => `${String(params["node"])}: ${String(params["vmid"])}`);

async function nightly(world: BackupJobWorld, more: Record<string, unknown> = {}): Promise<void> {
  expect(
    await world.root("POST /cluster/backup", {
      id: "nightly",
      schedule: "02:00",
      storage: "local",
      all: 1,
      ...more,
    }),
  ).toBeNull();
}

it("starts a due job once on every node with guests of it, as root, with its options", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await world.addGuest(101, "n1");
  await world.addGuest(102, "n2");
  await nightly(world, { compress: "zstd", exclude: "101", comment: "x", "prune-backups": "keep-last=2" });
  await using _run = running(world);
  await world.pass(119 * MINUTE);
  expect(world.calls).toEqual([]);
  await world.pass(2 * MINUTE);
  expect(asked(world)).toEqual(["n1: 100", "n2: 102"]);
  expect(world.calls[0]).toMatchObject({
    decision: {
      route: "POST /nodes/{node}/vzdump",
      actor: { authid: "root@pam" },
      work: "backup-job",
    },
    params: {
      vmid: "100",
      storage: "local",
      compress: "zstd",
      quiet: true,
      "job-id": "nightly",
      "prune-backups": "keep-last=2",
    },
  });
  expect(Object.keys(world.calls[0]?.params ?? {})).not.toContain("comment");
  await world.pass(20 * 60 * MINUTE);
  expect(world.calls).toHaveLength(2);
});

it("does not start a job over itself, but right after it when its time came meanwhile", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await nightly(world, { schedule: "*/30" });
  await using _run = running(world);
  await world.pass(95 * MINUTE);
  expect(world.calls).toHaveLength(1);
  await world.endTask(world.upids()[0] ?? "");
  await world.pass(MINUTE);
  expect(world.calls).toHaveLength(2);
  await world.endTask(world.upids()[1] ?? "");
  await world.pass(10 * MINUTE);
  expect(world.calls).toHaveLength(2);
  await world.pass(20 * MINUTE);
  expect(world.calls).toHaveLength(3);
});

it("does not repeat a run after a restart, and does missed ones only when asked to", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await nightly(world);
  await nightly(world, { id: "sure", "repeat-missed": 1 });
  {
    await using _run = running(world);
    await world.pass(121 * MINUTE);
    expect(world.calls).toHaveLength(2);
    for (const upid of world.upids()) await world.endTask(upid);
  }
  await using _again = running(world, world.another());
  await world.pass(MINUTE);
  expect(world.calls).toHaveLength(2);
  await _again[Symbol.asyncDispose]();
  await world.pass(DAY);
  await using _third = running(world, world.another());
  await world.pass(MINUTE);
  expect(world.calls.slice(2).map(({ params }) => params["job-id"])).toEqual(["sure"]);
});

it("starts a run once although two servers believe to be the one", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await nightly(world);
  await using _one = running(world);
  await using _two = running(world, world.another());
  await world.pass(121 * MINUTE);
  expect(world.calls).toHaveLength(1);
});

it("leaves disabled jobs, other nodes and empty ones alone, and follows a changed schedule at once", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await nightly(world, { enabled: 0 });
  await nightly(world, { id: "elsewhere", node: "n2" });
  await nightly(world, { id: "never", schedule: "2021-01-01" });
  await using _run = running(world);
  await world.pass(3 * 60 * MINUTE);
  expect(world.calls).toEqual([]);
  await world.root("PUT /cluster/backup/{id}", { id: "nightly", enabled: 1, schedule: "03:05" });
  await world.pass(6 * MINUTE);
  expect(asked(world)).toEqual(["n1: 100"]);
  // Moved there after the run: not due before the next night.
  await world.addGuest(103, "n2");
  await world.pass(60 * MINUTE);
  expect(world.calls).toHaveLength(1);
});

it("waits for a node it has not heard of, and misses one that is away", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await world.addGuest(102, "n2");
  await nightly(world);
  await nightly(world, { id: "sure", "repeat-missed": 1 });
  world.health.set("n1", "unknown");
  world.health.set("n2", "offline");
  await using _run = running(world);
  await world.pass(121 * MINUTE);
  expect(world.calls).toEqual([]);
  world.health.set("n1", "online");
  await world.pass(MINUTE);
  expect(asked(world)).toEqual(["n1: 100", "n1: 100"]);
  world.health.set("n2", "online");
  await world.pass(MINUTE);
  expect(world.calls.slice(2).map(({ params }) => [params["node"], params["job-id"]])).toEqual([
    ["n2", "sure"],
  ]);
});

it("notes why a run could not be started and tries again the next time", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await nightly(world);
  world.refusal = "storage 'local' is full";
  await using _run = running(world);
  await world.pass(121 * MINUTE);
  world.refusal = undefined;
  await world.pass(60 * MINUTE);
  expect(world.calls).toEqual([]);
  await world.pass(DAY);
  expect(world.calls).toHaveLength(1);
});

it("takes virtual clusters too, a task each, by its own rules of what is kept", async () => {
  await using world = await openBackupJobWorld();
  await world.root("POST /pools", { poolid: "shop" });
  await world.addCluster("demo", "shop", "n1");
  await world.addCluster("other", "default", "n1");
  const external = { backingStore: "external", externalEtcdEndpoint: "https://192.0.2.1:2379" };
  await world.addCluster("theirs", "shop", "n1", { controlPlane: external });
  await world.addCluster("there", "shop", "n2");
  await nightly(world, { all: 0, pool: "shop", "prune-backups": "keep-last=2" });
  await nightly(world, { id: "by-id", all: 0, vmid: "100" });
  await using _run = running(world);
  await world.pass(121 * MINUTE);
  expect(world.calls.map(({ decision, params }) => [decision.route, params])).toEqual(
    ["demo", "there"].map((vcluster, at) => [
      "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup",
      {
        node: `n${at + 1}`,
        vcluster,
        tenant: "shop",
        storage: "local",
        prune: "keep-last=2",
        requestId: "r",
      },
    ]),
  );
  // Not over itself.
  const change = { id: "nightly", schedule: "*/30", storage: "local", remove: 0, protected: 1 };
  expect(await world.root("PUT /cluster/backup/{id}", change)).toBeNull();
  await world.pass(60 * MINUTE);
  expect(world.calls).toHaveLength(2);
  for (const upid of world.upids()) await world.endTask(upid);
  await world.pass(MINUTE);
  expect(world.calls.slice(2).map(({ params }) => [params["prune"], params["protected"]])).toEqual([
    ["keep-all=1", true],
    ["keep-all=1", true],
  ]);
});

it("goes on with the next where one cannot be begun", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(100, "n1");
  await world.addCluster("demo", "default", "n1");
  await nightly(world);
  world.refusal = "storage 'local' is full";
  await using _run = running(world);
  await world.pass(121 * MINUTE);
  const { records } = world.fixture;
  expect(records.collection(backupRunCollection).get(runId("nightly", "n1"))?.value.error).toBe(
    "storage 'local' is full; storage 'local' is full",
  );
});
