// Cloud-init drives on real QEMU with a small guest that obeys them: made with the VM, changed while it runs, never
// copied or saved.
import { copyFileSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { readDisc, runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { tinyImage } from "../support/images.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILfTq6TWgMrgrKasaAzRZqXL+V9RUZFholieVbHv7DuX ann@home";

let gpve: Gpve;
let api: Api;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  // An import from a path of the host is root's, and a token is not root.
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
});
afterAll(() => gpve.stop());

const vm = (vmid = 100): string => `/nodes/${node}/qemu/${vmid}`;
const run = async (...call: TaskCall) => (await runTask(api, ...call)).exitstatus;
const images = (vmid: number): string[] => {
  const folder = join(gpve.data, "storage/local/images", String(vmid));
  return existsSync(folder) ? readdirSync(folder).toSorted() : [];
};
const config = async (vmid = 100) => (await api("GET", `${vm(vmid)}/config`)).data as Record<string, string>;
const shell = (script: string, vmid = 100) => runByAgent(api, vm(vmid), "/bin/sh", "-c", script);
describe.skipIf(!hasQemu)("a guest with a cloud-init drive", () => {
  test("obeys it from its first start on", async () => {
    copyFileSync(await tinyImage(), join(gpve.data, "storage/local/import/tiny.qcow2"));
    const disk = "local:0,import-from=local:import/tiny.qcow2,format=qcow2";
    expect(
      await run("POST", `/nodes/${node}/qemu`, {
        vmid: 100,
        name: "first.example.org",
        memory: 192,
        agent: 1,
        serial0: "socket",
        scsihw: "virtio-scsi-pci",
        scsi0: disk,
        ide2: "local:cloudinit",
        net0: "virtio=BC:24:11:00:00:07",
        ciuser: "ann",
        cipassword: "not to be seen",
        sshkeys: encodeURIComponent(KEY),
        ipconfig0: "ip=192.0.2.7/28,gw=192.0.2.1,ip6=2001:db8::7/64",
        nameserver: "192.0.2.53",
      }),
    ).toBe("OK");
    expect(await config()).toMatchObject({
      ide2: "local:100/vm-100-cloudinit.qcow2,media=cdrom",
      cipassword: "**********",
      boot: "order=scsi0;ide2;net0",
    });
    expect(images(100)).toEqual(["vm-100-cloudinit.qcow2", "vm-100-disk-0.qcow2"]);
    expect(await run("POST", `${vm()}/status/start`)).toBe("OK");
    await untilAgentAnswers(api, vm());
    const shown = await shell(
      "hostname; ip addr show dev eth0; cat /etc/resolv.conf /home/ann/.ssh/authorized_keys",
    );
    for (const wanted of [
      "first\n",
      "inet 192.0.2.7/28",
      "inet6 2001:db8::7/64",
      "nameserver 192.0.2.53",
      KEY,
    ])
      expect(shown).toContain(wanted);
    const text = await readDisc(api, vm());
    expect(text).toMatch(/password: \$5\$/);
    expect(text).not.toContain("not to be seen");
  });

  test("gets a new disc while it runs", async () => {
    await api("PUT", `${vm()}/config`, { name: "second", ciuser: "joe", delete: "nameserver" });
    const rows = (await api("GET", `${vm()}/cloudinit`)).data;
    expect(rows).toContainEqual({ key: "ciuser", value: "ann", pending: "joe" });
    expect(rows).toContainEqual({ key: "nameserver", delete: 1 });
    expect(await readDisc(api, vm())).toContain("hostname: first");
    expect((await api("PUT", `${vm()}/cloudinit`)).text).toBe('{"data":null}');
    await vi.waitFor(async () => expect(await readDisc(api, vm())).toContain("hostname: second"), {
      timeout: 150_000,
      interval: 1_000,
    });
    expect((await api("GET", `${vm()}/cloudinit`)).data).toContainEqual({ key: "ciuser", value: "joe" });
    await api("PUT", `${vm()}/config`, { hotplug: "disk,network,cloudinit" });
    expect((await api("PUT", `${vm()}/config`, { name: "third" })).status).toBe(200);
    await vi.waitFor(async () => expect(await readDisc(api, vm())).toContain("hostname: third"), {
      timeout: 150_000,
      interval: 1_000,
    });
    const state = (await api("GET", `${vm()}/status/current`)).data;
    expect(state).toMatchObject({ qmpstatus: "running" });
  });

  test("has clones with drives of their own, on any bus and as config drives", async () => {
    expect(await run("POST", `${vm()}/clone`, { newid: 101, name: "twin", full: 1 })).toBe("OK");
    expect((await config(101))["ide2"]).toBe("local:101/vm-101-cloudinit.qcow2,media=cdrom,size=4M");
    expect((await api("PUT", `${vm(101)}/config`, { delete: "ide2" })).status).toBe(200);
    expect(images(101)).toEqual(["vm-101-disk-0.qcow2"]);
    const changed = { scsi1: "local:cloudinit,format=raw", citype: "configdrive2" };
    expect((await api("PUT", `${vm(101)}/config`, changed)).status).toBe(200);
    expect(await api("PUT", `${vm(101)}/config`, { ide0: "local:cloudinit" })).toMatchObject({
      status: 500,
      reason: "ide0 - cloud-init drive is already attached at 'scsi1'",
    });
    expect(await run("POST", `${vm(101)}/status/start`)).toBe("OK");
    await untilAgentAnswers(api, vm(101));
    expect(await shell("hostname; ip addr show dev eth0", 101)).toMatch(/^twin\n[^]*inet 192\.0\.2\.7\/28/);
    expect(await readDisc(api, vm(101))).toContain("content_path");
    expect(await run("POST", `${vm(101)}/snapshot`, { snapname: "one" })).toBe("OK");
    expect(await run("POST", `${vm(101)}/status/stop`)).toBe("OK");
    expect(await run("DELETE", vm(101))).toBe("OK");
    expect(images(101)).toEqual([]);
  });

  test("is saved without it, and restored with a new one", async () => {
    const backup = { vmid: 100, storage: "local", mode: "snapshot", compress: "zstd" };
    expect(await run("POST", `/nodes/${node}/vzdump`, backup)).toBe("OK");
    expect(await run("POST", `${vm()}/status/stop`)).toBe("OK");
    const found = (await api("GET", `/nodes/${node}/storage/local/content`, { content: "backup" })).data;
    const [{ volid }] = found as [{ volid: string }];
    const kept = await api("GET", `/nodes/${node}/vzdump/extractconfig`, { volume: volid });
    expect(kept.data).not.toContain("#qmdump#map:ide2");
    expect(await run("POST", `/nodes/${node}/qemu`, { vmid: 102, archive: volid })).toBe("OK");
    expect((await config(102))["ide2"]).toContain("local:102/vm-102-cloudinit.qcow2,media=cdrom");
    expect(await run("POST", `${vm(102)}/status/start`)).toBe("OK");
    await untilAgentAnswers(api, vm(102));
    expect(await shell("hostname", 102)).toBe("third\n");
    expect(await run("POST", `${vm(102)}/status/stop`)).toBe("OK");
    expect(await run("DELETE", vm(102))).toBe("OK");
    expect(images(102)).toEqual([]);
  });
});
