import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { contextOf } from "../../../testing/storage-world.ts";
import { VmNode } from "../../../testing/vm-world.ts";
import { createVmExtensions } from "./vm-extensions.ts";

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
});
afterEach(() => node.close());

const archivedConfig = () => Promise.reject(new Error("nothing is restored here"));
const extensions = () =>
  createVmExtensions({
    host: node.host,
    engine: node.engine,
    imageStorages: () => ["local"],
    defaults: () => ({}),
    archivedConfig,
  });
const make = async (params: object, rights?: Record<string, string[]>) => {
  const actor = rights === undefined ? "root@pam" : "a@pve";
  const ctx = { ...contextOf(rights), actor: { userid: actor, authid: actor } };
  const route = extensions()["POST /gpve/nodes/{node}/virtual-machines"];
  const upid = await route?.({ node: "n1", vmid: 100, config: {}, ...params }, ctx);
  return (await node.engine.wait(String(upid))).exitStatus;
};

describe("VMs for /api/v1", () => {
  it("are made as PVE's method makes them, checks included", async () => {
    expect(await make({ config: { cores: "2", scsi0: "local:0.01" }, running: true })).toBe("OK");
    expect(node.values(100)).toMatchObject({ cores: "2", scsi0: expect.stringContaining("vm-100-disk-0") });
    expect(node.guests.get("100")).toBeDefined();
    expect(node.configs.microvm(100)).toBeUndefined();
    await expect(make({ vmid: 101, config: { cores: "many" } })).rejects.toMatchObject({
      errors: { cores: expect.any(String) },
    });
    await expect(make({ vmid: 101, config: { machine: "microvm" } })).rejects.toMatchObject({
      errors: { machine: expect.any(String) },
    });
    await expect(make({ vmid: 101, config: { archive: "local:backup/x.vma" } })).rejects.toThrow("restored");
    await expect(make({ vmid: 101, config: { pool: "x" } })).rejects.toThrow(
      "not the pool that was asked for",
    );
    await expect(make({ vmid: 101, pool: "x", config: { pool: "x" } })).rejects.toThrow(
      "pool 'x' does not exist",
    );
  });

  it("may be microvms: a kernel of a storage, kept through every change", async () => {
    node.put("snippets/kernel", Buffer.from("k"));
    node.put("snippets/initrd", Buffer.from("i"));
    const microvm = { kernel: "local:snippets/kernel", initrd: "local:snippets/initrd", cmdline: "quiet" };
    expect(await make({ config: { virtio0: "local:0.01" }, microvm, running: true })).toBe("OK");
    const { args, files } = node.guests.starts.at(-1) ?? { args: [], files: [] };
    expect(args.join(" ")).toMatch(
      /-kernel \S+\/snippets\/kernel -initrd \S+\/snippets\/initrd -append quiet/,
    );
    expect(args.join(" ")).toContain("type=microvm");
    expect(files.filter(({ path }) => path.includes("snippets"))).toHaveLength(2);
    const put = (params: object) =>
      node.call("PUT /nodes/{node}/qemu/{vmid}/config", { vmid: 100, ...params }, "root");
    await put({ name: "small", net0: "virtio,bridge=vmbr0" });
    // Nothing can be plugged into it.
    expect(node.configs.get(100).pending).toHaveProperty("net0");
    expect(node.values(100)).toMatchObject({ name: "small" });
    expect(node.configs.microvm(100)).toEqual(microvm);
    await node.guests.get("100")?.stop();
    const cloned = await node.task("POST /nodes/{node}/qemu/{vmid}/clone", { vmid: 100, newid: 101 }, "root");
    expect(cloned.exitStatus).toBe("OK");
    expect(node.configs.microvm(101)).toEqual(microvm);
  });

  it("boot only what is a file of theirs", async () => {
    await node.addWithDisk(200);
    const kernel = "local:200/vm-200-disk-0.qcow2";
    await expect(make({ microvm: { kernel } })).rejects.toThrow("is no file to boot");
    await expect(make({ microvm: { kernel: "nonsense" } })).rejects.toThrow();
  });

  it("boot only what the caller may have, as /api2 asks for it", async () => {
    for (const name of ["snippets/kernel", "template/iso/kernel.img"]) node.put(name, Buffer.from("k"));
    const own = { "/vms/100": ["VM.Allocate"] };
    const audit = { ...own, "/storage/local": ["Datastore.Audit"] };
    const iso = { microvm: { kernel: "local:iso/kernel.img" } };
    const snippet = { microvm: { kernel: "local:iso/kernel.img", initrd: "local:snippets/kernel" } };
    await expect(make(iso, own)).rejects.toThrow("/storage/local, Datastore");
    expect(await make(iso, audit)).toBe("OK");
    await expect(make({ ...snippet, vmid: 100 }, audit)).rejects.toThrow(
      "missing privileges to access local:snippets/kernel",
    );
    for (const kernel of ["/boot/vmlinuz", "../kernel", "local:/boot/vmlinuz"])
      await expect(make({ microvm: { kernel } }, audit)).rejects.toThrow();
  });

  it("are removed only as the VM that was meant", async () => {
    const ctx = { ...contextOf(undefined), actor: { userid: "root@pam", authid: "root@pam" } };
    const remove = async (params: object) => {
      const upid = await extensions()["DELETE /gpve/nodes/{node}/virtual-machines/{vmid}"]?.(
        { node: "n1", vmid: 100, ...params },
        ctx,
      );
      return (await node.engine.wait(String(upid))).exitStatus;
    };
    await make({ config: { cores: "2" } });
    const { digest } = node.configs.get(100);
    await node.configs.change(100, (config) => ({ ...config, values: { ...config.values, cores: "4" } }));
    await expect(remove({ digest })).rejects.toMatchObject({ code: "object.conflict" });
    await expect(remove({ madeBy: "another" })).rejects.toMatchObject({ code: "object.conflict" });
    expect(node.configs.has(100)).toBe(true);
    expect(node.configs.madeBy(100)).toBe(ctx.requestId);
    expect(await remove({ madeBy: ctx.requestId, digest: node.configs.get(100).digest })).toBe("OK");
    expect(node.configs.has(100)).toBe(false);
  });
});
