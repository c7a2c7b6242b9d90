// UEFI firmware with its variable store, and a TPM, on real QEMU and swtpm.
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { uploadImage } from "../support/images.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const needs = {
  "/usr/bin/qemu-system-x86_64": "qemu-system-x86",
  "/usr/share/OVMF/OVMF_VARS_4M.ms.fd": "ovmf",
  "/usr/bin/swtpm": "swtpm",
};
const missing = Object.entries(needs).flatMap(([path, name]) => (existsSync(path) ? [] : [name]));
if (missing.length > 0) console.warn(`SKIPPED: get it with: apt-get install ${missing.join(" ")}`);

describe.skipIf(missing.length > 0)("a VM with UEFI and a TPM", () => {
  let gpve: Gpve;
  let api: Api;
  let node: string;
  const run = (path: string, params?: TaskCall[2]) => runTask(api, "POST", path, params);

  beforeAll(async () => {
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
  });
  afterAll(() => gpve.stop());

  test("has the firmware's variables and a TPM that comes and goes with it", async () => {
    const vm = `/nodes/${node}/qemu/100`;
    const made = await run(`/nodes/${node}/qemu`, {
      vmid: 100,
      memory: 128,
      bios: "ovmf",
      machine: "q35",
      efidisk0: "local:1,efitype=4m,pre-enrolled-keys=1",
      tpmstate0: "local:1,version=v2.0",
    });
    expect(made.exitstatus).toBe("OK");
    const images = join(gpve.data, "storage/local/images/100");
    const template = readFileSync("/usr/share/OVMF/OVMF_VARS_4M.ms.fd");
    expect(
      readFileSync(join(images, "vm-100-disk-0.raw")).subarray(0, template.length).equals(template),
    ).toBe(true);
    expect(statSync(join(images, "vm-100-disk-1.raw")).size).toBe(4 * 1024 * 1024);
    const started = await run(`${vm}/status/start`);
    expect(started.exitstatus).toMatch(/^(?:OK|WARNINGS: \d+)$/);
    expect(existsSync(join(gpve.data, "run/guests/100-tpm"))).toBe(true);
    expect(readFileSync(join(images, "vm-100-disk-1.raw")).some((byte) => byte !== 0)).toBe(true);
    expect((await run(`${vm}/status/stop`)).exitstatus).toBe("OK");
    // And again: state and sockets of before are no obstacle.
    expect((await run(`${vm}/status/start`)).exitstatus).toMatch(/^(?:OK|WARNINGS: \d+)$/);
    expect((await run(`${vm}/status/stop`)).exitstatus).toBe("OK");
  });

  test("starts without an EFI disk too, with variables for that run only", async () => {
    await run(`/nodes/${node}/qemu`, { vmid: 101, memory: 128, bios: "ovmf" });
    expect((await run(`/nodes/${node}/qemu/101/status/start`)).exitstatus).toBe("WARNINGS: 1");
    await run(`/nodes/${node}/qemu/101/status/stop`);
  });

  test("boots a guest that knows it was started by UEFI", { timeout: 20 * 60_000 }, async () => {
    const vm = `/nodes/${node}/qemu/102`;
    const made = await run(`/nodes/${node}/qemu`, {
      vmid: 102,
      memory: 256,
      bios: "ovmf",
      efidisk0: "local:1,efitype=4m",
      scsihw: "virtio-scsi-pci",
      scsi0: `local:0,import-from=${await uploadImage(gpve, "tiny.qcow2")}`,
      boot: "order=scsi0",
      agent: 1,
    });
    expect(made.exitstatus).toBe("OK");
    expect((await run(`${vm}/status/start`)).exitstatus).toMatch(/^(?:OK|WARNINGS: \d+)$/);
    await untilAgentAnswers(api, vm);
    expect(await runByAgent(api, vm, "/bin/ls", "/sys/firmware/efi")).toContain("efivars");
    expect((await run(`${vm}/status/stop`)).exitstatus).toBe("OK");
  });
});
