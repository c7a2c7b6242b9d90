// Virtual machines as objects of /api/v1 on real QEMU: made, changed, watched, and a microvm that boots a kernel.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kernelImage } from "@gpve/agent/testing/boot-sector.ts";
import { exec, type ExecOptions } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, mainFile, nodeBinary, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

interface Vm {
  readonly metadata: { readonly name: string; readonly labels: Record<string, string> };
  readonly spec: {
    readonly running: boolean;
    readonly config: Record<string, string>;
    readonly microvm?: object;
  };
  readonly status: { readonly state: string; readonly name: string };
}

let gpve: Gpve;
let api: Api;
let node: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
  const snippets = join(gpve.data, "storage/local/snippets");
  mkdirSync(snippets, { recursive: true });
  writeFileSync(join(snippets, "kernel"), kernelImage());
});
afterAll(() => gpve.stop());

const v1 = async (method: string, path: string, body?: object, type = "application/json") => {
  const { url, token, caFile } = gpve.credentials;
  const { request } = await import("node:https");
  return new Promise<{ status: number; body: Vm & { detail?: string } }>((resolve, reject) => {
    const call = request(
      `${url}/api/v1${path}`,
      {
        method,
        ca: readFileSync(caFile),
        headers: { Authorization: `PVEAPIToken=${token}`, "Content-Type": type },
      },
      (answer) => {
        let text = "";
        answer.on("data", (chunk: Buffer) => (text += chunk.toString()));
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text) as never }));
      },
    );
    call.on("error", reject);
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
};
/** In a process of its own, as people have it. */
const ctl = async (argv: readonly string[], more: Partial<ExecOptions> = {}) => {
  const { code, stdout, stderr } = await exec(nodeBinary, [mainFile, "ctl", "--data", gpve.data, ...argv], {
    timeoutMs: 240_000,
    okCodes: Array.from({ length: 131 }, (_none, at) => at),
    ...more,
  });
  return { code, out: stdout, err: stderr };
};
const vm = (vmid: number, spec: object, metadata: object = {}) => ({
  apiVersion: "gpve.io/v1",
  kind: "VirtualMachine",
  metadata: { name: String(vmid), ...metadata },
  spec: { node, ...spec },
});
const state = async (vmid: number) => (await v1("GET", `/virtualmachines/${vmid}`)).body.status.state;

describe.skipIf(!hasQemu)("virtual machines in /api/v1", () => {
  test("are made, shown under both APIs, changed and deleted", async () => {
    const made = await v1(
      "POST",
      "/virtualmachines",
      vm(
        100,
        { config: { name: "web", memory: "64", scsi0: "local:1,format=qcow2" } },
        { labels: { tier: "a" } },
      ),
    );
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    expect(made.body).toMatchObject({
      metadata: { name: "100", labels: { tier: "a" } },
      spec: {
        disks: [{ name: "scsi0", volume: "local:100/vm-100-disk-0.qcow2", size: "1Gi", boot: true }],
        config: { name: "web" },
      },
      status: { name: "web" },
    });
    expect((await api("GET", `/nodes/${node}/qemu/100/config`)).data).toMatchObject({ name: "web" });
    const again = await v1("POST", "/virtualmachines", vm(100, { config: {} }));
    expect(again).toMatchObject({ status: 409 });
    const patched = await v1(
      "PATCH",
      "/virtualmachines/100",
      { spec: { running: true, config: { cores: "2", name: null } } },
      "application/merge-patch+json",
    );
    expect(patched.status, JSON.stringify(patched.body)).toBe(200);
    expect(patched.body.spec).toMatchObject({ cpu: { cores: 2 } });
    expect(patched.body.spec.config).not.toHaveProperty("name");
    await expect.poll(() => state(100), { timeout: 150_000 }).toBe("running");
    expect(await v1("DELETE", "/virtualmachines/100")).toMatchObject({
      body: { detail: expect.stringContaining("is running") },
    });
    const stop = await api("POST", `/nodes/${node}/qemu/100/status/stop`);
    await waitTask(api, stop.data as string);
    expect((await v1("DELETE", "/virtualmachines/100")).status).toBe(200);
    expect((await v1("GET", "/virtualmachines/100")).status).toBe(404);
  });

  test("are applied from a file, together with what they need", async () => {
    const [file, changed] = [
      fileURLToPath(new URL("../../examples/vm.yaml", import.meta.url)),
      join(gpve.data, "changed.yaml"),
    ];
    const text = readFileSync(file, "utf8");
    let seen = "";
    const enough = new AbortController();
    const watching = ctl(["get", "vms", "-w", "-o", "json"], {
      signal: enough.signal,
      onLine: (line) => (seen += line),
    }).catch((err: unknown) => {
      if (!enough.signal.aborted) throw err;
    });
    const before = await ctl(["diff", "-f", file]);
    expect(before.code, before.err).toBe(1);
    expect((await v1("GET", "/virtualmachines/9000")).status).toBe(404);
    const applied = await ctl(["apply", "-f", file]);
    expect(applied.code, applied.err).toBe(0);
    expect(applied.err).toContain("2 created");
    const { body } = await v1("GET", "/virtualmachines/9000");
    expect(body).toMatchObject({
      metadata: { namespace: "demo", labels: { team: "shop" } },
      spec: { running: true, disks: [{ name: "scsi0", volume: "local:9000/vm-9000-disk-0.qcow2" }] },
    });
    expect((await api("GET", "/pools/demo")).data).toMatchObject({ members: [{ vmid: 9000 }] });
    for (const verb of ["diff", "apply"]) {
      const again = await ctl([verb, "-f", file]);
      expect(again, again.err).toMatchObject({ code: 0, err: expect.stringContaining("2 unchanged") });
    }
    // Running, and its memory waits for the next start: as after a PUT. Its disk grows at once.
    const larger = text.replace("size: 1Gi", "size: 2Gi");
    writeFileSync(
      changed,
      larger.replace("64Mi", "80Mi").replace("name: demo\n    scsihw", "name: shop\n    scsihw"),
    );
    const update = await ctl(["apply", "-f", changed]);
    expect(update.code, update.err).toBe(0);
    expect((await v1("GET", "/virtualmachines/9000")).body).toMatchObject({
      spec: {
        running: true,
        memory: { size: "80Mi" },
        disks: [{ name: "scsi0", size: "2Gi" }],
        config: { name: "shop" },
      },
      status: { pending: ["memory"] },
    });
    expect((await ctl(["diff", "-f", changed])).code).toBe(0);
    expect((await api("GET", `/nodes/${node}/qemu/9000/config`)).data).toMatchObject({
      scsi0: "local:9000/vm-9000-disk-0.qcow2,size=2G",
    });
    // One that cannot be made takes the others back with it.
    const bad = `${larger}---\n${JSON.stringify(vm(9001, { config: { scsi0: "nowhere:1" } }))}\n`;
    writeFileSync(changed, bad);
    const failed = await ctl(["apply", "-f", changed]);
    expect(failed.code).not.toBe(0);
    expect(failed.err).toContain("nowhere");
    expect((await v1("GET", "/virtualmachines/9000")).body.spec.config).toMatchObject({ name: "shop" });
    expect((await v1("GET", "/virtualmachines/9001")).status).toBe(404);
    await waitTask(api, (await api("POST", `/nodes/${node}/qemu/9000/status/stop`)).data as string);
    await expect.poll(() => state(9000), { timeout: 150_000 }).toBe("stopped");
    // Stopped by somebody, and the file says that it shall run.
    writeFileSync(changed, larger);
    const restarted = await ctl(["apply", "-f", changed]);
    expect(restarted.code, restarted.err).toBe(0);
    expect(await state(9000)).toBe("running");
    await waitTask(api, (await api("POST", `/nodes/${node}/qemu/9000/status/stop`)).data as string);
    const deleted = await ctl(["delete", "vm", "9000"]);
    expect(deleted.code, deleted.err).toBe(0);
    expect((await v1("GET", "/virtualmachines/9000")).status).toBe(404);
    await expect.poll(() => seen, { timeout: 150_000 }).toContain('"DELETED"');
    expect(seen).toContain('"state":"running"');
    enough.abort();
    await watching;
  });

  test("with much in their configuration are the same when they are applied again, and as they are read", async () => {
    const file = join(gpve.data, "rich.json");
    const config = {
      name: "rich",
      description: "Two lines:\nand a colon",
      agent: "enabled=1,fstrim_cloned_disks=1",
      onboot: "1",
      machine: "q35",
      bios: "ovmf",
      efidisk0: "local:1,efitype=4m,format=qcow2",
      scsihw: "virtio-scsi-single",
      scsi0: "local:1,iothread=1,discard=on,format=raw",
      virtio1: "file=local:1,format=qcow2,cache=writeback",
      ide2: "local:cloudinit",
      ide3: "none,media=cdrom",
      net0: "virtio,bridge=vmbr0,firewall=1",
      net1: "model=e1000,bridge=vmbr0",
      ipconfig0: "ip=dhcp",
      ciuser: "ann",
      cipassword: "$5$saltsalt$N0tReallyAHashButItLooksLikeOne1234567890abcd",
      serial0: "socket",
      tags: "b;a",
      smbios1: "serial=QUJD,base64=1",
      hotplug: "disk,network",
      boot: "order=scsi0;net0",
    };
    writeFileSync(file, JSON.stringify(vm(105, { config })));
    const applied = await ctl(["apply", "-f", file]);
    expect(applied.code, applied.err).toBe(0);
    const again = await ctl(["diff", "-f", file]);
    expect(again.code, again.out).toBe(0);
    const read = await ctl(["get", "vm", "105", "-o", "json"]);
    expect(read.out).not.toContain("$5$");
    writeFileSync(file, read.out);
    const back = await ctl(["diff", "-f", file]);
    expect(back.code, back.out + back.err).toBe(0);
    const gone = await ctl(["delete", "-f", file]);
    expect(gone.code, gone.err).toBe(0);
    expect((await v1("GET", "/virtualmachines/105")).status).toBe(404);
  });

  test("that cannot be made say why, and leave nothing", async () => {
    const wrong = await v1("POST", "/virtualmachines", vm(101, { config: { scsi0: "nowhere:1" } }));
    expect(wrong.status).toBeGreaterThanOrEqual(400);
    expect(JSON.stringify(wrong.body)).toContain("nowhere");
    expect((await v1("POST", "/virtualmachines", vm(101, { config: { machine: "microvm" } }))).status).toBe(
      400,
    );
    expect((await v1("GET", "/virtualmachines/101")).status).toBe(404);
    expect(await api("POST", `/nodes/${node}/qemu`, { vmid: 101, machine: "microvm" })).toMatchObject({
      status: 400,
    });
  });

  test("of the microvm machine boot a kernel", async () => {
    const made = await v1(
      "POST",
      "/virtualmachines",
      vm(102, {
        running: true,
        config: { memory: "64", serial0: "socket", virtio0: "local:1,format=raw" },
        microvm: { kernel: "local:snippets/kernel" },
      }),
    );
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    expect(made.body.spec.microvm).toEqual({ kernel: "local:snippets/kernel" });
    expect((await api("GET", `/nodes/${node}/qemu/102/status/current`)).data).toMatchObject({
      status: "running",
      "running-machine": "microvm",
    });
    // Its mark may have gone out before anyone listened: a reset makes it boot once more.
    const serial = createConnection(join(gpve.data, "run/guests/102/serial0.sock"));
    await new Promise((resolve) => serial.once("connect", resolve));
    const mark = new Promise<string>((resolve) =>
      serial.once("data", (chunk: Buffer) => resolve(chunk.toString())),
    );
    const reset = await api("POST", `/nodes/${node}/qemu/102/status/reset`);
    await waitTask(api, reset.data as string);
    expect(await mark).toContain("!");
    serial.destroy();
    const run = async (path: string, params: Record<string, string | number> = {}) => {
      const answer = await api("POST", `/nodes/${node}${path}`, params);
      expect((await waitTask(api, answer.data as string)).exitstatus, answer.text).toBe("OK");
    };
    await run("/vzdump", { vmid: 102, storage: "local", mode: "snapshot" });
    await run("/qemu/102/status/stop");
    const dumps = (await api("GET", `/nodes/${node}/storage/local/content?content=backup`)).data;
    const archive = (dumps as { volid: string }[])[0]?.volid ?? "";
    await run("/qemu", { vmid: 103, archive, start: 1 });
    await run("/qemu/102/clone", { newid: 104, full: 1 });
    await run("/qemu/104/status/start");
    for (const vmid of [103, 104]) {
      expect((await v1("GET", `/virtualmachines/${vmid}`)).body.spec.microvm).toEqual(made.body.spec.microvm);
      expect((await api("GET", `/nodes/${node}/qemu/${vmid}/status/current`)).data).toMatchObject({
        status: "running",
        "running-machine": "microvm",
      });
      await run(`/qemu/${vmid}/status/stop`);
    }
    for (const vmid of [102, 103, 104])
      expect((await v1("DELETE", `/virtualmachines/${vmid}`)).status).toBe(200);
  });
});
