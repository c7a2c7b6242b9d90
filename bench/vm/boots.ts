// Create + start until the guest's init speaks, ours beside QEMU by hand with the very same command line.
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { exec } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { tinyImage } from "../../test/support/images.ts";
import { NODE, runTask, type Bench } from "./bench-gpve.ts";
import { median } from "./numbers.ts";

const READY = "tiny: ready";
const QEMU = "/usr/bin/qemu-system-x86_64";
const VMID = 100;

export interface Boots {
  readonly runs: number;
  readonly oursMs: number;
  readonly bareMs: number;
  readonly ratio: number;
}

/** Alternates, so that whatever else the machine does hits both. */
export async function measureBoots(bench: Bench, runs: number): Promise<Boots> {
  const image = await tinyImage();
  copyFileSync(image, join(bench.data, "storage/local/import/tiny.qcow2"));
  const ours: number[] = [];
  const bare: number[] = [];
  for (let run = 0; run < runs; run++) {
    const { ms, argv } = await bootOurs(bench);
    ours.push(ms);
    bare.push(await bootBare(bench, image, argv));
  }
  const [oursMs, bareMs] = [median(ours), median(bare)];
  return { runs, oursMs, bareMs, ratio: oursMs / bareMs };
}

async function bootOurs(bench: Bench): Promise<{ ms: number; argv: string[] }> {
  const begun = performance.now();
  const ready = untilReady(join(bench.data, "run/guests", String(VMID), "serial0.sock"));
  await runTask(bench, "POST", `/nodes/${NODE}/qemu`, {
    vmid: VMID,
    memory: 256,
    scsihw: "virtio-scsi-pci",
    scsi0: "local:0,import-from=local:import/tiny.qcow2,format=qcow2",
    serial0: "socket",
    start: 1,
  });
  await ready;
  const ms = performance.now() - begun;
  const status = await bench.api("GET", `/nodes/${NODE}/qemu/${VMID}/status/current`);
  const { pid } = status.data as { pid: number };
  const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(1, -1);
  await runTask(bench, "POST", `/nodes/${NODE}/qemu/${VMID}/status/stop`);
  await runTask(bench, "DELETE", `/nodes/${NODE}/qemu/${VMID}`);
  return { ms, argv };
}

async function bootBare(bench: Bench, image: string, argv: readonly string[]): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-bare-"));
  const disk = join(folder, "disk.qcow2");
  const own = argv.map((arg) =>
    arg
      .replace(/(socket,id=([\w-]+)),fd=\d+/, `$1,path=${folder}/$2`)
      .replaceAll(join(bench.data, "run/guests", String(VMID), "io"), folder)
      .replaceAll(/[^"]*\/vm-100-disk-0\.qcow2/g, disk),
  );
  const begun = performance.now();
  const ready = untilReady(join(folder, "serial0"));
  await exec("qemu-img", ["convert", "-f", "qcow2", "-O", "qcow2", image, disk]);
  const child = startChild(QEMU, own);
  try {
    await Promise.race([
      ready,
      child.exited.then(() => Promise.reject(new Error(`QEMU ended: ${child.output()}`))),
    ]);
    return performance.now() - begun;
  } finally {
    await child.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Both are watched in the same way: on their serial port. */
async function untilReady(path: string): Promise<void> {
  const end = Date.now() + 180_000;
  while (Date.now() < end) {
    const text = await listen(path, end);
    if (text) return;
    await sleep(5);
  }
  throw new Error(`the guest behind ${path} never said "${READY}"`);
}

function listen(path: string, end: number): Promise<boolean> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(path);
    socket.setTimeout(Math.max(1, end - Date.now()), () => socket.destroy());
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (text.includes(READY)) socket.destroy();
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => resolve(text.includes(READY)));
  });
}
