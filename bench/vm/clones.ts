// A hundred linked clones asked for at once, beside as many `qemu-img create` by hand.
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { tinyImage } from "../../test/support/images.ts";
import { forEach, NODE, runTask, runTasks, type Bench } from "./bench-gpve.ts";
import { median } from "./numbers.ts";

const TEMPLATE = 900;
const FIRST = 1_000;
const ROUNDS = 6;

export interface Clones {
  readonly clones: number;
  readonly rounds: number;
  /** Medians. */
  readonly oursMs: number;
  readonly bareMs: number;
  /** The first round after a start, before the code is warm. */
  readonly firstMs: number;
}

export async function measureClones(bench: Bench, clones: number): Promise<Clones> {
  const image = await tinyImage();
  await runTask(bench, "POST", `/nodes/${NODE}/qemu`, {
    vmid: TEMPLATE,
    memory: 256,
    scsi0: "local:0,import-from=local:import/tiny.qcow2,format=qcow2",
  });
  await runTask(bench, "POST", `/nodes/${NODE}/qemu/${TEMPLATE}/template`);
  const ids = Array.from({ length: clones }, (_, index) => FIRST + index);
  const ours: number[] = [];
  const bare: number[] = [];
  // In turn, so that what else the machine does meets both.
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(await clonedByUs(bench, ids));
    bare.push(await clonedByHand(image, ids));
  }
  await runTask(bench, "DELETE", `/nodes/${NODE}/qemu/${TEMPLATE}`);
  return { clones, rounds: ROUNDS, oursMs: median(ours), bareMs: median(bare), firstMs: ours[0] ?? 0 };
}

async function clonedByUs(bench: Bench, ids: readonly number[]): Promise<number> {
  const begun = performance.now();
  await runTasks(
    bench,
    ids.map((newid) => ["POST", `/nodes/${NODE}/qemu/${TEMPLATE}/clone`, { newid }]),
  );
  const tookMs = performance.now() - begun;
  await forEach(ids, 4, (vmid) => runTask(bench, "DELETE", `/nodes/${NODE}/qemu/${vmid}`));
  return tookMs;
}

async function clonedByHand(image: string, ids: readonly number[]): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-bare-"));
  const begun = performance.now();
  await forEach(ids, availableParallelism(), async (id) => {
    const disk = join(folder, `${id}.qcow2`);
    await exec("qemu-img", ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image, disk]);
  });
  const tookMs = performance.now() - begun;
  rmSync(folder, { recursive: true, force: true });
  return tookMs;
}
