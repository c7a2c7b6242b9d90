// A guest that works is moved round three nodes: its users see a short gap, and nothing is lost or done twice.
import { existsSync } from "node:fs";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { newLab, type TestLab } from "../support/lab.ts";
import { quantiles } from "../support/counter.ts";
import { MovingGuest, writtenDisk, type Move } from "../support/moving-guest.ts";
import { waitTask } from "../support/tasks.ts";

const problem =
  (await networkProblem()) ??
  (existsSync("/usr/bin/etcd") ? undefined : "etcd is missing: apt-get install etcd-server");
if (problem !== undefined) console.warn(`SKIPPED moving guests between nodes: ${problem}`);

/** With the compressed one and the one that empties its node it comes round. */
const MOVES = Number(process.env["GPVE_MOVES"] ?? 1);
const LOCAL_MOVES = Number(process.env["GPVE_MOVES"] ?? 1);
const RING = ["n2", "n3", "n1"];

describe.skipIf(problem !== undefined)("a guest that moves", () => {
  let lab: TestLab;
  let guest: MovingGuest | undefined;

  beforeAll(async () => {
    lab = newLab();
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
  });
  afterEach(() => guest?.close());
  afterAll(() => lab?.remove());

  /** Round the ring, while it counts and writes. */
  const goRound = async (
    moved: MovingGuest,
    times: number,
    more: Record<string, string | number> = {},
  ): Promise<void> => {
    const moves: Move[] = [];
    for (let at = 0; at < times; at++) {
      const move = await moved.move(RING[(RING.indexOf(moved.node) + 1) % 3] ?? "", more);
      moves.push(move);
      expect(moved.counter.problem).toBeUndefined();
      expect(move.log).toMatch(/the guest stood still for \d+ ms/);
    }
    // A node that is busy beyond measure may be too late for one of them, and says so.
    const byOwnLine = moves.filter(({ log }) => log.includes("RAM goes by a line of its own"));
    expect(byOwnLine.length, moves.map(({ log }) => log).join("\n")).toBeGreaterThan(0);
    tell(more["with-local-disks"] === 1 ? "local" : "shared", moves);
    const { data } = await lab.api()("GET", "/cluster/resources", { type: "vm" });
    const { vmid, node } = moved;
    const expected = { vmid, node, status: "running", tags: "moving" };
    expect(data).toEqual(expect.arrayContaining([expect.objectContaining(expected)]));
  };

  /** By several connections, and back by one: what it came by is not what it leaves by. */
  const compressed = async (moved: MovingGuest): Promise<void> => {
    const target = RING[(RING.indexOf(moved.node) + 1) % 3] ?? "";
    const { log } = await moved.move(target, { compression: "on" });
    expect(log).toMatch(/RAM goes by 4 connections, compressed by (?:zstd|zlib)/);
    expect(moved.counter.problem).toBeUndefined();
    const { status, text } = await lab.api()("POST", `${moved.path}/migrate`, {
      target: "n1",
      online: 1,
      postcopy: 1,
    });
    expect([status, text]).toEqual([501, expect.stringContaining("is not moved by postcopy")]);
  };

  /** Its node is emptied by HA, which looks after it now: it hears as little of that. */
  const drain = async (moved: MovingGuest): Promise<void> => {
    const before = moved.node;
    const sid = `vm:${moved.vmid}`;
    const added = await lab.api()("POST", "/cluster/ha/resources", { sid, max_relocate: 0 });
    expect(added.status, added.text).toBe(200);
    await untilStarted(lab, sid);
    expect(await lab.gpve("ctl", "node", "drain", before)).toContain(`Node ${before} is empty`);
    await moved.follow();
    expect(moved.node).not.toBe(before);
    await moved.counter.goesOn();
    expect(moved.counter.problem).toBeUndefined();
    await lab.gpve("ctl", "node", "uncordon", before);
    expect((await lab.api()("DELETE", `/cluster/ha/resources/${sid}`)).status).toBe(200);
  };

  /** All that it has written is there once, in its place. */
  const haveAll = async (moved: MovingGuest): Promise<void> => {
    const written = await moved.written();
    await moved.run("POST", "/status/stop");
    const numbers = MovingGuest.numbersOn(await moved.fileOf("scsi1"));
    expect(numbers.length).toBeGreaterThanOrEqual(written);
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
  };

  test(
    "keeps its connections and its writes, its disks on a shared storage",
    { timeout: 200_000 + MOVES * 60_000 },
    async () => {
      guest = await MovingGuest.start(lab, 100, "n1", "shared");
      await goRound(guest, MOVES);
      await compressed(guest);
      await drain(guest);
      await haveAll(guest);
    },
  );

  test(
    "takes all that it has along, off and running, its disks each node's own",
    { timeout: 400_000 + LOCAL_MOVES * 60_000 },
    async () => {
      const moved = await MovingGuest.make(lab, 101, "n1", "local");
      guest = moved;
      await moved.run("POST", "/snapshot", { snapname: "before" });
      const before = moved.imagesAt("n1");
      expect(before).toHaveLength(2);
      await moved.moveOff("n2");
      expect(moved.imagesAt("n1")).toEqual([]);
      expect(moved.imagesAt("n2")).toEqual(before);
      // What was saved of it is whole there too.
      await moved.run("POST", "/snapshot/before/rollback");
      await moved.run("DELETE", "/snapshot/before");
      await moved.run("POST", "/config", {
        bios: "ovmf",
        memory: 256,
        scsi1: writtenDisk("local"),
        efidisk0: "local:1,efitype=4m",
        tpmstate0: "local:1,version=v2.0",
      });
      await moved.moveOff("n3");
      expect([moved.imagesAt("n2"), moved.imagesAt("n3").length]).toEqual([[], 5]);
      await moved.begin();
      const refused = await lab.api()("POST", `${moved.path}/migrate`, { target: "n1", online: 1 });
      expect((await waitTask(lab.api(), refused.data as string)).exitstatus).toContain("with-local-disks");
      await goRound(moved, LOCAL_MOVES, { "with-local-disks": 1 });
      for (const node of RING) expect(moved.imagesAt(node)).toHaveLength(node === moved.node ? 5 : 0);
      await haveAll(moved);
    },
  );
});

async function untilStarted(lab: TestLab, sid: string): Promise<void> {
  const check = async (): Promise<void> => {
    const { data } = await lab.api()("GET", "/cluster/ha/status/current");
    const row = (data as readonly { sid?: string; state?: string }[]).find((each) => each.sid === sid);
    expect(row?.state).toBe("started");
  };
  await vi.waitFor(check, { timeout: 150_000, interval: 500 });
}

function tell(kind: string, moves: readonly Move[]): void {
  const { p50, p99, max } = quantiles(moves.map(({ gapMs }) => gapMs));
  const ms = (value: number): string => `${value.toFixed(0)} ms`;
  console.log(
    `${moves.length} live moves, ${kind} disks, gap seen by the client: p50 ${ms(p50)}, p99 ${ms(p99)}, max ${ms(max)}`,
  );
}
