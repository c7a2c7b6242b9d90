// Copies of a VM's disks from one made-up node to another: real images, qemu-img and qemu-nbd.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Duplex } from "node:stream";
import { given } from "@gpve/contracts/given.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ReplicaOffer } from "@gpve/domain/replication/replica.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { hostBackupTools } from "../../../infrastructure/backup/host-backup-tools.ts";
import { DialedReplicaLine, serveReplica } from "../../../infrastructure/move/replica-wire.ts";
import { ReplicaFiles } from "../../../infrastructure/replica/replica-files.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { Replicas } from "./replicas.ts";
import { replicateOperation } from "./replicate-operation.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

const hasTools = existsSync("/usr/bin/qemu-nbd");
const end = (node: string) => ({ node, address: "127.0.0.1", port: 1, fingerprints: [] });
const move: GuestMove = { vmid: 100, id: "m", from: end("n1"), to: end("n2"), at: 0, purpose: "replica" };

let source: VmWorld;
let target: VmWorld;
let engine: OperationEngine;
let logs: MemoryTaskLogs;
let replicas: Replicas;
let notes: ReplicaFiles;
let breakAfter = Number.POSITIVE_INFINITY;
let volname: string;

/** Both ends of a line. */
function line(): [Duplex, Duplex] {
  const [there, back] = [new PassThrough(), new PassThrough()];
  const near = Duplex.from({ readable: back, writable: there });
  const far = Duplex.from({ readable: there, writable: back });
  for (const each of [near, far]) each.on("error", () => each.destroy());
  return [near, far];
}

beforeEach(async () => {
  breakAfter = Number.POSITIVE_INFINITY;
  source = await VmWorld.open();
  target = await VmWorld.open();
  const tools = hostBackupTools({ ...plainPlugins(), clock: systemClock, socketFolder: source.root });
  notes = new ReplicaFiles(join(target.root, "replicas"));
  replicas = new Replicas({ ...target.host, tools, notes });
  const made = testEngine();
  engine = made.engine;
  logs = made.logs;
  const peers = {
    replicaLine: async () => {
      const [near, far] = line();
      void serveReplica(far, move, replicas, (err) => ({ message: String(err) }));
      const answerOf = (answer: unknown): unknown => {
        const { ok, error } = (answer ?? {}) as { ok?: unknown; error?: { message: string } };
        if (ok === undefined) throw new Error(error?.message ?? "hung up");
        return ok;
      };
      const dialed = new DialedReplicaLine(near, answerOf, async (sent) => {
        if (sent > breakAfter) throw new Error("the line broke");
      });
      answerOf(JSON.parse(String(await new Promise((done) => near.once("data", done)))));
      near.pause();
      return dialed;
    },
  };
  const find = (vmid: number, id: string) => (vmid === 100 && id === "m" ? move : undefined);
  engine.register(replicateOperation({ ...source.host, moves: { peers, find } }, tools));
  await engine.start();
  volname = await source.addWithDisk(100, { name: "web" });
});
afterEach(async () => {
  await engine.stop();
  source.remove();
  target.remove();
});

const pathAt = (world: VmWorld): string => world.storages.find("local").plugin.path(volname);
const io = (...commands: string[]): Promise<unknown> =>
  exec("qemu-io", ["-f", "qcow2", ...commands.flatMap((command) => ["-c", command]), pathAt(source)]);
const hashAt = async (world: VmWorld): Promise<string> => {
  const copy = join(world.root, "check.raw");
  await exec("qemu-img", ["convert", "-O", "raw", pathAt(world), copy]);
  return createHash("sha256").update(readFileSync(copy)).digest("hex");
};
const replicate = async (more: object = {}): Promise<{ state: string; why?: string; log: string }> => {
  const args = { vmid: 100, job: "100-0", target: "n2", moveId: "m", ...more };
  const { upid } = await engine.submit({ type: "replicate", resources: ["vm/100"], args, actor: "root@pam" });
  const { state, exitStatus } = await engine.wait(upid);
  return {
    state,
    ...given({ why: exitStatus }),
    log: (logs.lines.get(upid) ?? []).join("\n"),
  };
};

describe.skipIf(!hasTools)("copies of a stopped VM's disks (skipped without qemu-utils)", () => {
  test("are whole at first, then take only what changed, and are put away with their job", async () => {
    await io("write -P 1 0 512k");
    expect((await replicate()).log).toMatch(
      /this is the first copy[^]*scsi0: 0\.5 MiB of 1\.0 MiB with data/,
    );
    expect(await hashAt(target)).toBe(await hashAt(source));
    expect(notes.get(100)).toMatchObject({
      job: "100-0",
      from: "n1",
      volumes: [{ volid: `local:${volname}` }],
    });
    expect(notes.keeperOf(`local:${volname}`)).toBe("100-0");
    expect(notes.keeperOf("local:1/x")).toBeUndefined();

    await io("write -P 2 64k 64k", "write -z 256k 64k");
    const again = await replicate();
    expect(again.log).toMatch(/scsi0: 0\.1 MiB of 1\.0 MiB changed[^]*sent 0\.1 MiB/);
    expect(await hashAt(target)).toBe(await hashAt(source));

    // It grows, too.
    await source.storages.find("local").plugin.resize(volname, 2 * 1024 * 1024);
    await io("write -P 3 1536k 64k");
    expect(await replicate({ rate: 100 })).toMatchObject({ state: "done" });
    expect(await hashAt(target)).toBe(await hashAt(source));
    expect((await replicas.recover(100)).volumes).toHaveLength(1);

    await replicas.drop(100, false);
    expect(target.images(100)).toEqual([]);
    await replicas.drop(100, false);
    await expect(replicas.recover(100)).rejects.toThrow("keeps no copy of VM 100");
    expect((await replicate()).log).toContain("does not have the copy that was sent last");
    await replicas.drop(100, true);
    expect(target.images(100)).toHaveLength(1);
    expect((await replicate()).why).toContain("is there and is no copy of VM 100's disk");
    expect(await replicate({ replaces: [`local:${volname}`] })).toMatchObject({ state: "done" });
  });

  test("take nothing more when they have taken the VM's place", async () => {
    await io("write -P 1 0 512k");
    await replicate();
    const { generation, job } = (await replicas.state(100)) ?? { generation: "", job: "" };
    const disk = { key: "scsi0", volid: `local:${volname}`, storage: "local", format: "qcow2" as const };
    const offer = {
      vmid: 100,
      job,
      base: generation,
      generation: "f".repeat(32),
      at: 9,
      disks: [{ ...disk, bytes: 1024 * 1024, isWhole: true }],
    };
    const late = await replicas.begin(offer, "n1");
    await replicas.recover(100);
    const before = await hashAt(target);
    await expect(late.finish()).rejects.toThrow("has taken over");
    expect(await hashAt(target)).toBe(before);
    expect(notes.get(100)).toMatchObject({ generation });
    expect(await replicate()).toMatchObject({ state: "done" });
  });

  test("are all of the disk again where its bitmap had stopped to take changes", async () => {
    await io("write -P 1 0 512k");
    await replicate();
    const { stdout } = await exec("qemu-img", ["info", "--output=json", pathAt(source)]);
    const info = JSON.parse(stdout) as { "format-specific": { data: { bitmaps: { name: string }[] } } };
    const [{ name } = { name: "" }] = info["format-specific"].data.bitmaps;
    await exec("qemu-img", ["bitmap", "--disable", pathAt(source), name]);
    await io("write -P 5 128k 64k");
    await replicate();
    expect(await hashAt(target)).toBe(await hashAt(source));
  });

  test("stay as they were when a run breaks, and the next one sends all that it missed", async () => {
    await io("write -P 1 0 512k");
    await replicate();
    const before = await hashAt(target);
    await io("write -P 2 0 512k");
    breakAfter = 1;
    expect((await replicate()).why).toContain("the line broke");
    expect(await hashAt(target)).toBe(before);
    expect(notes.hasDelivery(100)).toBe(false);
    breakAfter = Number.POSITIVE_INFINITY;
    expect(await replicate()).toMatchObject({ state: "done" });
    expect(await hashAt(target)).toBe(await hashAt(source));
  });

  test("a delivery that was whole when the node died is put in by whoever looks next", async () => {
    await io("write -P 1 0 128k");
    await replicate();
    const kept = notes.get(100);
    const offer: ReplicaOffer = {
      vmid: 100,
      job: "100-0",
      generation: "f".repeat(32),
      base: kept?.generation ?? "",
      at: 7,
      disks: [
        {
          key: "scsi0",
          volid: `local:${volname}`,
          storage: "local",
          format: "qcow2",
          bytes: 1024 * 1024,
          isWhole: false,
        },
      ],
    };
    const writer = await replicas.begin(offer, "n1");
    await writer.data(0, 0, Buffer.alloc(65_536, 9));
    await writer.zeroes(0, 65_536, 65_536);
    await expect(replicas.begin(offer, "n1")).rejects.toThrow("is coming already");
    await writer.finish();
    expect(await replicas.state(100)).toMatchObject({ generation: "f".repeat(32), at: 7 });
    // As a crash leaves it.
    notes.set({ ...(kept ?? { vmid: 100, job: "", generation: "", at: 0, from: "", volumes: [] }) });
    writeFileSync(notes.delivery(100), "cut off");
    expect(await replicas.state(100)).toBeUndefined();
    await expect(replicas.recover(100)).rejects.toThrow("cannot be brought up to date");
    await expect(replicas.begin({ ...offer, base: "0".repeat(32) }, "n1")).rejects.toThrow("not the one");
  });

  test("are refused where they make no sense", async () => {
    await target.add(100, { name: "own" });
    expect((await replicate()).why).toContain("is this node's own");
    await source.add(101, { name: "none" });
    const asked = async (vmid: number) => {
      const args = { vmid, job: "101-0", target: "n2", moveId: "m" };
      const { upid } = await engine.submit({
        type: "replicate",
        resources: [`vm/${vmid}`],
        args,
        actor: "root@pam",
      });
      return (await engine.wait(upid)).exitStatus;
    };
    expect(await asked(101)).toContain("No replicatable volumes found");
    await source.add(102, { template: "1" });
    expect(await asked(102)).toContain("is a template");
    const other = await source.addWithDisk(103, {}, "qcow2");
    await source.configs.change(103, (config) => ({
      ...config,
      values: { ...config.values, scsi0: `local:${other},replicate=0` },
    }));
    expect(await asked(103)).toContain("No replicatable volumes found");
  });
});
