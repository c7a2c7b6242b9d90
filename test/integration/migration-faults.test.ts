// A guest on its way to another node, and what can go wrong: it is too busy, the move is called off, something is killed.
// It runs on, on one node, and its disk never has two writers. GPVE_SEED chooses other victims and moments; GPVE_MOVE_KILLS
// says how many, and has a guest that is too busy tried as well, which takes minutes.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { kill } from "node:process";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { DiskWitness } from "../support/ha-lab.ts";
import { newLab, type TestLab } from "../support/lab.ts";
import { MovingGuest } from "../support/moving-guest.ts";
import { generator } from "../support/seeded.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

const problem =
  (await networkProblem()) ??
  (existsSync("/usr/bin/etcd") ? undefined : "etcd is missing: apt-get install etcd-server");
if (problem === undefined && process.env["GPVE_MOVE_KILLS"] === undefined)
  console.warn(
    "SKIPPED a guest that is too busy to move: minutes; ./gpve test --long, or set GPVE_MOVE_KILLS=5",
  );
if (problem !== undefined) console.warn(`SKIPPED moves that go wrong: ${problem}`);

const SEED = Number(process.env["GPVE_SEED"] ?? 11);
const KILLS = Number(process.env["GPVE_MOVE_KILLS"] ?? 2);
const IS_LONG = process.env["GPVE_MOVE_KILLS"] !== undefined;
const CALLED_OFF = { timeout: 300_000 };
const NODES = ["n1", "n2", "n3"];
const VMID = 100;
/** KiB/s: slow enough that a guest of 128 MiB is on its way for some seconds. */
const SLOW = 16 * 1024;
/** From the moment that the other node is ready: until the guest has moved, and a little beyond. */
const KILL_WITHIN_MS = 7_000;

describe.skipIf(problem !== undefined)("a move that goes wrong", () => {
  let lab: TestLab;
  let guest: MovingGuest;
  let witness: DiskWitness;

  beforeAll(async () => {
    lab = newLab();
    witness = new DiskWitness(join(lab.data, "shared/images", String(VMID)));
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
    guest = await MovingGuest.start(lab, VMID, "n1", "shared");
  });
  afterEach(() => {
    expect(witness.looks).toBeGreaterThan(10);
    expect(witness.most).toBe(1);
  });
  afterAll(async () => {
    witness?.close();
    guest?.close();
    await lab?.remove();
  });

  const qemuAt = (node: string): number | undefined => {
    const file = join(lab.data, "nodes", node, "run/guests", String(VMID), "state");
    if (!existsSync(file)) return undefined;
    const { pid } = JSON.parse(readFileSync(file, "utf8")) as { readonly pid: number };
    return existsSync(`/proc/${pid}`) ? pid : undefined;
  };
  const running = (): string[] => NODES.filter((node) => qemuAt(node) !== undefined);
  const next = (): string => NODES[(NODES.indexOf(guest.node) + 1) % 3] ?? "";

  test.skipIf(!IS_LONG)("a guest that changes its memory faster than it can be sent runs on", async () => {
    const before = guest.node;
    await guest.beBusy(16);
    const sum = await guest.memorySum();
    const upid = await guest.askToMove(next(), { bwlimit: 8 * 1024 });
    const { exitstatus } = await waitTask(lab.api(), upid, 170_000);
    const log = await taskLog(lab.api(), upid);
    expect(exitstatus, log).toContain("the guest changes its memory faster than it can be sent");
    // One line a second, and no faster than allowed.
    const sent = [...log.matchAll(/^(\d+) s: sent ([\d.]+) MiB/gm)].map(
      ([, s, mib]) => Number(mib) / Number(s),
    );
    expect(sent.length).toBeGreaterThan(3);
    expect(Math.max(...sent.slice(2))).toBeLessThan(16);
    await guest.counter.goesOn();
    expect(guest.counter.problem).toBeUndefined();
    await vi.waitFor(() => expect(running()).toEqual([before]), { timeout: 150_000 });
    await guest.beIdle();
    await guest.move(next());
    expect(await guest.memorySum()).toBe(sum);
  });

  test.each([
    ["by way of the agents", "on"],
    ["by a line of its own", "off"],
  ])(
    "a move %s that is called off leaves the guest where it is, and nothing there",
    CALLED_OFF,
    async (_, compression) => {
      const before = guest.node;
      const upid = await guest.askToMove(next(), { bwlimit: SLOW, compression });
      await vi.waitFor(async () => expect(await taskLog(lab.api(), upid)).toMatch(/^\d+ s: sent/m), {
        timeout: 150_000,
        interval: 100,
      });
      const stopped = await lab.api()("DELETE", `/nodes/${before}/tasks/${encodeURIComponent(upid)}`);
      expect(stopped.status, stopped.text).toBe(200);
      await waitTask(lab.api(), upid);
      await vi.waitFor(() => expect(running()).toEqual([before]), { timeout: 150_000 });
      await guest.counter.goesOn();
      expect(guest.counter.problem).toBeUndefined();
      const ended = await guest.move(next());
      expect(ended.log).toMatch(/now, \d+ ms after it last ran here/);
    },
  );

  const victims: Readonly<Record<string, (from: string, to: string) => number | undefined>> = {
    "the agent of the source": (from) => part(from, "agent"),
    "the agent of the target": (_from, to) => part(to, "agent"),
    "a server": (from) => part(from, "server"),
    "QEMU of the target": (_from, to) => qemuAt(to),
    "QEMU of the source": (from) => qemuAt(from),
  };
  const part = (node: string, name: string): number => {
    const text = readFileSync(join(lab.data, "nodes", node, `run/lab-${name}.json`), "utf8");
    return (JSON.parse(text) as { readonly pid: number }).pid;
  };

  /** One node has it; the guest goes on, unless it was its own process that was killed. */
  const settled = async (victim: string, target: string): Promise<void> => {
    const api = lab.api();
    const row = await vi.waitFor(
      async () => {
        const { data } = await api("GET", "/cluster/resources", { type: "vm" });
        const rows = (
          data as readonly { vmid: number; node: string; status: string; lock?: string }[]
        ).filter(({ vmid }) => vmid === VMID);
        expect(rows).toHaveLength(1);
        const [found] = rows;
        const lock = await api("GET", `/nodes/${found?.node}/qemu/${VMID}/status/current`);
        expect(lock.status, lock.text).toBe(200);
        expect((lock.data as { lock?: string }).lock).toBeUndefined();
        const status = (lock.data as { status: string }).status;
        expect(running()).toEqual(status === "running" ? [found?.node] : []);
        return { node: found?.node ?? "", status };
      },
      { timeout: 150_000, interval: 250 },
    );
    // Whoever has just come back is not asked for anything before it is there.
    await vi.waitFor(
      async () => {
        const nodes = (await api("GET", "/nodes")).data as readonly { readonly status: string }[];
        expect(nodes.map(({ status }) => status)).toEqual(["online", "online", "online"]);
      },
      { timeout: 150_000, interval: 250 },
    );
    const killedOwner =
      (victim === "QEMU of the source" && row.node !== target) ||
      (victim === "QEMU of the target" && row.node === target);
    guest.node = row.node;
    if (!killedOwner) expect(row.status, victim).toBe("running");
    if (row.status === "running") {
      await guest.counter.goesOn();
      expect(guest.counter.problem, victim).toBeUndefined();
    } else await guest.begin();
  };

  test(
    "whatever is killed in mid-move: one node has the guest, it runs, and its disk has one writer",
    { timeout: 120_000 + KILLS * 120_000 },
    async () => {
      const random = generator(SEED);
      const names = Object.keys(victims);
      const first = Math.floor(random() * names.length);
      const told: string[] = [];
      console.log(`kills in mid-move: ${KILLS}, GPVE_SEED=${SEED}`);
      for (let at = 0; at < KILLS; at++) {
        const victim = names[(first + at) % names.length] ?? "";
        const [from, to] = [guest.node, next()];
        const compression = at % 2 === 0 ? "off" : "on";
        const upid = await guest.askToMove(to, { bwlimit: SLOW, compression });
        await vi.waitFor(async () => expect(await taskLog(lab.api(), upid)).toMatch(/is ready for it/), {
          timeout: 150_000,
          interval: 50,
        });
        const afterMs = Math.floor(random() * KILL_WITHIN_MS);
        await new Promise((done) => setTimeout(done, afterMs));
        const pid = victims[victim]?.(from, to);
        if (pid !== undefined) kill(pid, "SIGKILL");
        await lab.fault("heal", from);
        await lab.fault("heal", to);
        try {
          await settled(victim, to);
        } catch (cause) {
          const what = `${victim}, killed ${afterMs} ms after ${to} was ready (compression ${compression}): ${String(cause)}`;
          throw new Error(`${what}\n${await taskLog(lab.api(), upid)}`, { cause });
        }
        told.push(
          `${victim}, ${afterMs} ms after the target was ready${pid === undefined ? " (gone)" : ""}: ${from} -> ${to}, now on ${guest.node}`,
        );
      }
      console.log(
        `kills in mid-move, seed ${SEED}:\n${told.join("\n")}\nmost writers at once: ${witness.most}`,
      );
      // All that it has written is there, each in its place.
      const written = await guest.written();
      await guest.run("POST", "/status/stop");
      const numbers = MovingGuest.numbersOn(await guest.fileOf("scsi1"));
      expect(numbers.length).toBeGreaterThanOrEqual(written);
      expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    },
  );
});
