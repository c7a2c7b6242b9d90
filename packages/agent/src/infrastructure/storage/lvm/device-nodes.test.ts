import { lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Exec } from "@gpve/kit/exec.ts";
import { DeviceNodes } from "./device-nodes.ts";

let devices: string;
let victim: string;
beforeEach(() => {
  devices = mkdtempSync(join(tmpdir(), "gpve-nodes-"));
  victim = join(devices, "victim");
  writeFileSync(victim, "untouched");
  for (const folder of ["vg", "gpve/vg"]) mkdirSync(join(devices, folder), { recursive: true });
});
afterEach(() => {
  rmSync(devices, { recursive: true, force: true });
});

/** Makes plain files where mknod makes devices. */
const mknod: Exec = async (_program, args) => {
  writeFileSync(args[2] ?? "", "a node");
  return { code: 0, stdout: "", stderr: "" };
};

it("writes into no file that a link leads to", async () => {
  const nodes = new DeviceNodes("vg", mknod, devices);
  symlinkSync(victim, nodes.path("vm-100-disk-0"));
  await expect(nodes.open("vm-100-disk-0")).rejects.toThrow("ELOOP");
  expect(readFileSync(victim, "utf8")).toBe("untouched");
});

it("takes no link for the node of a volume, and puts the node in its place", async () => {
  const nodes = new DeviceNodes("vg", mknod, devices);
  // The links of LVM lead to the device itself; ours never does.
  symlinkSync("/dev/null", join(devices, "vg/vm-100-disk-0"));
  symlinkSync(join(devices, "vg/vm-100-disk-0"), nodes.path("vm-100-disk-0"));
  await nodes.make("vm-100-disk-0");
  expect(lstatSync(nodes.path("vm-100-disk-0")).isSymbolicLink()).toBe(false);
  const file = await nodes.open("vm-100-disk-0");
  expect(await file.readFile("utf8")).toBe("a node");
  await file.close();
  await nodes.remove("vm-100-disk-0");
  await expect(nodes.open("vm-100-disk-0")).rejects.toThrow("ENOENT");
});

it("says which volume has no device", async () => {
  await expect(new DeviceNodes("vg", mknod, devices).make("vm-7-disk-0")).rejects.toThrow(
    "the device of logical volume 'vg/vm-7-disk-0' is not there",
  );
});
