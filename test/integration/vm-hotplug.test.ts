// Changes of a VM that runs, on real QEMU: what it takes over at once, what waits, what it refuses.
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { connect as connectSocket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let vm: string;

const run = async (method: string, path: string, params?: Record<string, string | number>) => {
  const answer = await api(method, path, params);
  expect(answer.status, answer.text).toBe(200);
  const task = await waitTask(api, answer.data as string);
  expect(task).toMatchObject({ exitstatus: "OK" });
};
const put = (params: Record<string, string | number>) => api("PUT", `${vm}/config`, params);
const active = async () =>
  (await api("GET", `${vm}/config`, { current: 1 })).data as Record<string, string | undefined>;
const pending = async () =>
  ((await api("GET", `${vm}/pending`)).data as { key: string; pending?: string; delete?: number }[]).filter(
    (row) => row.pending !== undefined || row.delete !== undefined,
  );

/** Asks QEMU itself, on its own monitor. */
function qmp(command: string, args: object = {}): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const socket = connectSocket(join(gpve.data, "run/guests/100/qmp-fd.sock"));
    let text = "";
    socket.on("error", reject);
    socket.on("data", (chunk) => {
      text += chunk.toString();
      for (const line of text.split("\n")) {
        if (!line.includes('"id"')) continue;
        try {
          const answer = JSON.parse(line) as { id?: string; return?: unknown; error?: unknown };
          if (answer.id !== "test") continue;
          socket.destroy();
          resolve(answer.return ?? answer.error);
        } catch {
          return; // a partial line
        }
      }
    });
    socket.write(`${JSON.stringify({ execute: "qmp_capabilities" })}\n`);
    socket.write(`${JSON.stringify({ execute: command, arguments: args, id: "test" })}\n`);
  });
}
const devices = async () =>
  ((await qmp("qom-list", { path: "/machine/peripheral" })) as { name: string }[]).map(({ name }) => name);

/** Without root guests are not confined. */
async function expectReachable(name: string, wanted: boolean): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { pid } = (await api("GET", `${vm}/status/current`)).data as { pid: number };
  const file = join(gpve.data, "storage/local/images/100", name);
  const inside = `/proc/${pid}/root${file}`;
  expect(existsSync(inside) && statSync(inside).size > 0).toBe(wanted);
}

beforeAll(async () => {
  if (!hasQemu) return;
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  const node = await firstNode(api);
  vm = `/nodes/${node}/qemu/100`;
  const isos = join(gpve.data, "storage/local/template/iso");
  mkdirSync(isos, { recursive: true });
  for (const name of ["a.iso", "b.iso"]) writeFileSync(join(isos, name), Buffer.alloc(65_536));
  await run("POST", `/nodes/${node}/qemu`, {
    vmid: 100,
    memory: 1024,
    numa: 1,
    cores: 2,
    vcpus: 1,
    hotplug: "disk,network,usb,cpu,memory",
    scsihw: "virtio-scsi-pci",
    scsi0: "local:0.01",
    ide2: "local:iso/a.iso,media=cdrom",
  });
  await run("POST", `${vm}/status/start`);
});
afterAll(async () => {
  if (!hasQemu) return;
  await api("POST", `${vm}/status/stop`);
  await gpve.stop();
});

describe.skipIf(!hasQemu)("a running VM", () => {
  test("gets a disk and loses it again; the volume stays as unused", async () => {
    const answer = await put({ scsi1: "local:0.02,format=qcow2,mbps=5" });
    expect(answer.status, answer.text).toBe(200);
    expect(await pending()).toEqual([]);
    expect(await devices()).toContain("scsi1");
    expect((await active())["scsi1"]).toContain("vm-100-disk-1.qcow2");
    const gone = await put({ delete: "scsi1" });
    expect(gone.status, gone.text).toBe(200);
    expect(await devices()).not.toContain("scsi1");
    expect((await active())["unused0"]).toBe("local:100/vm-100-disk-1.qcow2");
    expect(JSON.stringify(await qmp("query-named-block-nodes", { flat: true }))).not.toContain("disk-1");
    await expectReachable("vm-100-disk-1.qcow2", false);
    // The same volume again: it is reachable once more.
    const again = await put({ scsi3: "local:100/vm-100-disk-1.qcow2" });
    expect(again.status, again.text).toBe(200);
    expect(await devices()).toContain("scsi3");
    await expectReachable("vm-100-disk-1.qcow2", true);
  });

  test("takes over new limits and a new medium", async () => {
    const disk = (await active())["scsi0"] ?? "";
    expect((await put({ scsi0: `${disk},iops=100,mbps_rd=2` })).status).toBe(200);
    expect(await qmp("qom-get", { path: "/objects/throttle-drive-scsi0", property: "limits" })).toMatchObject(
      {
        "iops-total": 100,
        "bps-read": 2 * 1024 * 1024,
      },
    );
    expect((await put({ scsi0: disk })).status).toBe(200);
    expect(await qmp("qom-get", { path: "/objects/throttle-drive-scsi0", property: "limits" })).toMatchObject(
      {
        "iops-total": 0,
        "bps-read": 0,
      },
    );
    const media = async () => JSON.stringify(await qmp("query-block"));
    expect(await media()).toContain("a.iso");
    for (const [file, seen] of [
      ["local:iso/b.iso", "b.iso"],
      ["none", ""],
      ["local:iso/a.iso", "a.iso"],
    ] as const) {
      const changed = await put({ ide2: `${file},media=cdrom` });
      expect(changed.status, changed.text).toBe(200);
      expect(await media()).toContain(seen);
      expect(await pending()).toEqual([]);
    }
    expect(await media()).not.toContain("b.iso");
  });

  test("gets a network card whose link goes down and up", async () => {
    const added = await put({ net0: "virtio" });
    expect(added.status, added.text).toBe(200);
    expect(await devices()).toContain("net0");
    const card = (await active())["net0"] ?? "";
    expect((await put({ net0: `${card},link_down=1` })).status).toBe(200);
    expect(await pending()).toEqual([]);
    // A guest that does not run lets go of no PCI device.
    await run("POST", `${vm}/status/suspend`);
    const refused = await put({ delete: "net0" });
    await run("POST", `${vm}/status/resume`);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain("hotplug problem - ");
    expect(await pending()).toEqual([expect.objectContaining({ key: "net0", delete: 1 })]);
    expect((await put({ revert: "net0" })).status).toBe(200);
    const nowhere = await put({ net1: "virtio,bridge=nowhere9" });
    expect(nowhere).toMatchObject({ status: 400 });
    expect(nowhere.text).toContain("hotplug problem - bridge 'nowhere9' does not exist");
    expect((await put({ revert: "net1" })).status).toBe(200);
  });

  test("grows in CPUs and memory", async () => {
    const more = await put({ vcpus: 2, memory: 2048 });
    expect(more.status, more.text).toBe(200);
    expect(await pending()).toEqual([]);
    expect(await qmp("query-cpus-fast")).toHaveLength(2);
    expect(await qmp("query-memory-devices")).toHaveLength(2);
    const odd = await put({ memory: 2100 });
    expect(odd.text).toContain("must be aligned to 512 for hotplugging");
    expect((await put({ revert: "memory" })).status).toBe(200);
  });

  test("keeps what needs a start", async () => {
    expect((await put({ cores: 1, ide0: "local:0.01", cpuunits: 200, balloon: 512 })).status).toBe(200);
    expect((await pending()).map(({ key }) => key)).toEqual(["cores", "ide0"]);
    expect((await active())["cpuunits"]).toBe(200);
  });
});
