import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { VmNode } from "../../../testing/vm-world.ts";

const QEMU = "/nodes/{node}/qemu" as const;
const VM = "/nodes/{node}/qemu/{vmid}" as const;
const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILfTq6TWgMrgrKasaAzRZqXL+V9RUZFholieVbHv7DuX ann@home";

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
  node.define("other", { content: "images" });
  for (const command of [
    "blockdev-open-tray",
    "blockdev-remove-medium",
    "blockdev-del",
    "object-del",
    "object-add",
    "blockdev-add",
    "blockdev-insert-medium",
    "blockdev-close-tray",
    "query-named-block-nodes",
  ])
    node.guests.answers.set(command, () => (command === "query-named-block-nodes" ? [] : {}));
});
afterEach(() => node.close());

const exit = async (...call: Parameters<VmNode["task"]>): Promise<string | undefined> =>
  (await node.task(...call)).exitStatus;
const create = (params: object) => exit(`POST ${QEMU}`, { vmid: 100, ...params }, "root");
const change = (params: object) => node.call(`PUT ${VM}/config`, { vmid: 100, ...params }, "root");
const commands = (): string[] => node.guests.get("100")?.qmp.commands.map(({ name }) => name) ?? [];

/** All text of a drive, whatever its image format. */
async function content(file: string, vmid = 100, storage = "local"): Promise<string> {
  const raw = join(node.root, "drive.iso");
  const path = join(node.root, storage, "images", String(vmid), file);
  await exec("qemu-img", ["convert", "-U", "-O", "raw", path, raw]);
  return readFileSync(raw, "latin1");
}

describe("a cloud-init drive", () => {
  it("is made with the VM, under a name of its own", async () => {
    const made = await create({
      ide2: "local:cloudinit",
      name: "web",
      ciuser: "ann",
      cipassword: "secret",
      sshkeys: encodeURIComponent(KEY),
    });
    expect(made).toBe("OK");
    expect(node.values(100)["ide2"]).toBe("local:100/vm-100-cloudinit.qcow2,media=cdrom");
    expect(node.values(100)["cipassword"]).toMatch(/^\$5\$[^$]+\$[^$]{43}$/);
    const text = await content("vm-100-cloudinit.qcow2");
    expect(text).toContain("hostname: web\n");
    expect(text).toContain("user: ann\n");
    expect(text).toContain(KEY);
    expect(text).not.toContain("secret");
  });

  it("comes in the format and with the bus that were asked for, once", async () => {
    expect(await create({ scsi1: "local:cloudinit,format=raw", citype: "configdrive2" })).toBe("OK");
    expect(node.values(100)["scsi1"]).toBe("local:100/vm-100-cloudinit.raw,media=cdrom");
    expect(await content("vm-100-cloudinit.raw")).toContain('"network_config"');
    await expect(change({ ide2: "local:cloudinit" })).rejects.toThrow(
      "ide2 - cloud-init drive is already attached at 'scsi1'",
    );
    const twice = { vmid: 101, ide2: "local:cloudinit", sata0: "local:cloudinit" };
    expect(await create(twice)).toMatch(/ - \w+ - cloud-init drive is already attached at '\w+'$/);
    expect(node.images(101)).toEqual([]);
  });

  it("is taken away with its volume", async () => {
    await create({ ide2: "local:cloudinit" });
    await change({ delete: "ide2" });
    expect(node.images(100)).toEqual([]);
    expect(node.values(100)).not.toHaveProperty("unused0");
    await change({ ide2: "local:cloudinit,media=cdrom", ciuser: "joe" });
    expect(await content("vm-100-cloudinit.qcow2")).toContain("user: joe\n");
    expect(node.values(100)["boot"]).not.toContain("ide2;ide2");
    await node.run(100);
    await change({ delete: "ide2" });
    expect(node.images(100)).toEqual(["vm-100-cloudinit.qcow2"]);
    await node.guests.get("100")?.kill();
    expect(await exit(`POST ${VM}/status/start`, { vmid: 100 })).toBe("OK");
    expect(node.images(100)).toEqual([]);
  });

  it("is made again whenever the VM starts, even when its volume is gone", async () => {
    await create({ ide2: "local:cloudinit", name: "one" });
    await change({ name: "two" });
    expect(await content("vm-100-cloudinit.qcow2")).toContain("hostname: one");
    expect(await exit(`POST ${VM}/status/start`, { vmid: 100 })).toBe("OK");
    expect(await content("vm-100-cloudinit.qcow2")).toContain("hostname: two");
    expect(node.guests.starts.at(-1)?.files).toContainEqual({
      path: expect.stringMatching(/vm-100-cloudinit\.qcow2$/),
      access: "ro",
      owned: true,
      ofStorage: true,
    });
    await node.guests.get("100")?.kill();
    await node.storages.find("local").plugin.free("100/vm-100-cloudinit.qcow2");
    expect(await exit(`POST ${VM}/status/start`, { vmid: 100 })).toBe("OK");
    expect(node.images(100)).toEqual(["vm-100-cloudinit.qcow2"]);
  });

  it("is made again for a running guest when asked to, or with every change", async () => {
    await create({ ide2: "local:cloudinit", ciuser: "ann", searchdomain: "lan" });
    await node.run(100);
    await change({ ciuser: "joe", ipconfig0: "ip=dhcp", delete: "searchdomain" });
    expect(await node.call(`GET ${VM}/cloudinit`, { vmid: 100 })).toEqual([
      { key: "ciuser", value: "ann", pending: "joe" },
      { key: "ipconfig0", pending: "ip=dhcp" },
      { key: "searchdomain", delete: 1 },
    ]);
    expect(commands()).not.toContain("blockdev-insert-medium");
    expect(await node.call(`PUT ${VM}/cloudinit`, { vmid: 100 })).toBeNull();
    expect(await node.call(`GET ${VM}/cloudinit`, { vmid: 100 })).toEqual([{ key: "ciuser", value: "joe" }]);
    expect(await content("vm-100-cloudinit.qcow2")).toContain("user: joe");
    expect(commands().filter((name) => name === "blockdev-insert-medium")).toHaveLength(1);
    await change({ hotplug: "network,disk,cloudinit" });
    await change({ ciuser: "kim" });
    expect(await content("vm-100-cloudinit.qcow2")).toContain("user: kim");
    expect(commands().filter((name) => name === "blockdev-insert-medium")).toHaveLength(2);
  });

  it("goes into the empty drive of a running guest, made of all that changes with it", async () => {
    await create({ ide2: "none,media=cdrom" });
    await node.run(100);
    await change({ ide2: "local:cloudinit,media=cdrom", name: "late" });
    expect(node.values(100)["ide2"]).toBe("local:100/vm-100-cloudinit.qcow2,media=cdrom");
    expect(await content("vm-100-cloudinit.qcow2")).toContain("hostname: late");
    await change({ ide2: "none,media=cdrom" });
    expect(node.images(100)).toEqual([]);
    expect(await node.call(`PUT ${VM}/cloudinit`, { vmid: 100 })).toBeNull();
  });

  it("is made anew for a clone and where it is moved to", async () => {
    await node.addWithDisk(100);
    await change({ ide2: "local:cloudinit", name: "web" });
    expect(await exit(`POST ${VM}/clone`, { vmid: 100, newid: 200, full: true })).toBe("OK");
    expect(node.values(200)["ide2"]).toBe("local:200/vm-200-cloudinit.qcow2,media=cdrom,size=4M");
    const move = { vmid: 100, disk: "ide2", storage: "other" };
    expect(await exit(`POST ${VM}/move_disk`, move)).toBe("OK");
    expect(node.values(100)["ide2"]).toBe("other:100/vm-100-cloudinit.qcow2,media=cdrom");
    expect(await content("vm-100-cloudinit.qcow2", 100, "other")).toContain("hostname: web");
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
    await node.run(100);
    expect(await exit(`POST ${VM}/move_disk`, { ...move, storage: "local", format: "raw" })).toBe("OK");
    expect(node.images(100, "other")).toEqual([]);
    expect(commands()).toContain("blockdev-insert-medium");
    await node.guests.get("100")?.kill();
    expect(await exit(`POST ${VM}/template`, { vmid: 100 })).toBe("OK");
    expect(await exit(`POST ${VM}/clone`, { vmid: 100, newid: 201 })).toBe("OK");
    expect(node.values(201)["ide2"]).toBe("local:201/vm-201-cloudinit.raw,media=cdrom,size=4M");
  });

  it("holds snippets, and is refused with those that cannot be read", async () => {
    mkdirSync(join(node.root, "local/snippets"), { recursive: true });
    const snippet = (name: string): string => join(node.root, "local/snippets", name);
    writeFileSync(snippet("user.yaml"), "#cloud-config\n# mine\n");
    writeFileSync(snippet("big.yaml"), Buffer.alloc(1024 * 1024 + 1, "#"));
    symlinkSync("/etc/passwd", snippet("link.yaml"));
    mkdirSync(snippet("folder.yaml"));
    expect(await create({ ide2: "local:cloudinit", cicustom: "user=local:snippets/user.yaml" })).toBe("OK");
    expect(await content("vm-100-cloudinit.qcow2")).toContain("# mine");
    const start = async (volume: string): Promise<string | undefined> => {
      await change({ cicustom: `user=${volume}` });
      return exit(`POST ${VM}/status/start`, { vmid: 100 });
    };
    expect(await start("local:snippets/none.yaml")).toBe("volume 'local:snippets/none.yaml' does not exist");
    expect(await start("local:snippets/big.yaml")).toContain("too long");
    expect(await start("local:snippets/link.yaml")).toContain("is a link; put the file itself there");
    expect(await start("local:snippets/folder.yaml")).toContain("is not a file");
    await expect(change({ cicustom: "user=local:iso/a.iso" })).rejects.toThrow(
      "unable to use volume local:iso/a.iso - content type needs to be 'snippets'",
    );
    expect(node.guests.get("100")).toBeUndefined();
    const failed = { vmid: 101, ide2: "local:cloudinit", cicustom: "user=local:snippets/none.yaml" };
    expect(await create(failed)).toContain("does not exist");
    expect([node.images(101), node.configs.has(101)]).toEqual([[], false]);
  });

  it("gets no keys that are none", async () => {
    const keys = { sshkeys: encodeURIComponent(`${KEY}\nssh-rsa BBBB`) };
    await expect(create(keys)).rejects.toThrow("SSH public key validation error");
    await create({});
    await expect(change(keys)).rejects.toThrow("SSH public key validation error");
    await change({ sshkeys: encodeURIComponent(`no-pty ${KEY}\n\n`), ostype: "win11", cipassword: "plain" });
    expect(node.values(100)["cipassword"]).toBe("plain");
  });
});

it("a guest gets the host's own CD drive, or is told that there is none", async () => {
  await create({ ide2: "cdrom,media=cdrom" });
  expect(await exit(`POST ${VM}/status/start`, { vmid: 100 })).toBe("OK");
  await node.guests.get("100")?.kill();
  Object.assign(node.host.files, { exists: () => false });
  expect(await exit(`POST ${VM}/status/start`, { vmid: 100 })).toContain("node 'n1' has no CD drive");
});
