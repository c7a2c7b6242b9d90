// The guest that everything happens to while gpve is killed, and what must be true of it afterwards.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, onTestFailed } from "vitest";
import { counterSector } from "@gpve/agent/testing/boot-sector.ts";
import { CrashWorld } from "../../support/crash-world.ts";

export const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");
export const TIMEOUT_MS = 600_000;

/** It runs all the time and must not notice. */
export const GUEST = 100;
export const NEW = 200;
export let world: CrashWorld;
let content: string;
let pid: number;

/** A world for the file: each test leaves it as it found it, and looks. One that failed leaves another for the next. */
export function worldForTheFile(): void {
  let isUsable = false;
  beforeEach(async () => {
    if (!hasQemu) return;
    onTestFailed(() => void (isUsable = false));
    if (isUsable) return;
    await world?.stop();
    world = new CrashWorld();
    await world.start();
    mkdirSync(join(world.data, "storage/local/import"), { recursive: true });
    writeFileSync(join(world.data, "storage/local/import/counter.raw"), counterSector());
    writeFileSync(join(world.data, "storage/local/import/noise.raw"), randomBytes(16 * 1024 * 1024));
    await world.ok("POST", `/nodes/${world.node}/qemu`, {
      vmid: GUEST,
      memory: 16,
      scsihw: "virtio-scsi-single",
      scsi0: "local:0,import-from=local:import/counter.raw,format=qcow2,iothread=1",
      scsi1: "local:0,import-from=local:import/noise.raw,format=qcow2,iothread=1",
      start: 1,
    });
    content = await world.contentOf(GUEST, "scsi0");
    ({ pid } = await world.status(GUEST));
    isUsable = true;
  });
  afterAll(() => world?.stop());
}

export const guestRuns = async (): Promise<void> => {
  expect(await world.status(GUEST)).toMatchObject({ qmpstatus: "running", pid });
  expect(await world.contentOf(GUEST, "scsi0")).toBe(content);
};
export const newIsWholeOrNothing = async (): Promise<void> => {
  await guestRuns();
  const images = world.images().filter((name) => name.startsWith(`${NEW}/`));
  expect(images).toHaveLength((await world.has(NEW)) ? 2 : 0);
  if (images.length > 0) expect(await world.contentOf(NEW, "scsi0")).toBe(content);
};
export const dropNew = async (): Promise<void> => {
  if (!(await world.has(NEW))) return;
  if ((await world.status(NEW)).qmpstatus !== "stopped")
    await world.ok("POST", `${world.vm(NEW)}/status/stop`);
  await world.ok("DELETE", world.vm(NEW));
};
export const dumps = (): string[] => {
  const folder = join(world.data, "storage/local/dump");
  return existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".vma.zst")) : [];
};
export const dropDumps = async (): Promise<void> => {
  for (const name of dumps())
    await world.ok("DELETE", `/nodes/${world.node}/storage/local/content/local:backup/${name}`);
};
export const backup = (): [string, string, Record<string, string | number>] => [
  "POST",
  `/nodes/${world.node}/vzdump`,
  { vmid: GUEST, storage: "local", mode: "snapshot", compress: "zstd", fleecing: "1,storage=local" },
];
export const nothingFleeced = async (): Promise<void> => {
  await guestRuns();
  expect(world.images().filter((name) => name.includes("-fleece-"))).toEqual([]);
};
