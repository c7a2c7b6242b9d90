import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { VmNode } from "../../../testing/vm-world.ts";

const CONFIG = "/nodes/{node}/qemu/{vmid}/config" as const;

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
  await node.addWithDisk(100);
  await node.addWithDisk(200);
  node.put("template/iso/a.iso", Buffer.alloc(2048));
  node.put("import/a.raw", Buffer.alloc(2048));
  node.put("snippets/a.yaml", Buffer.from("x"));
});
afterEach(() => node.close());

const mine = ["VM.Config.Disk", "VM.Config.CDROM"];
const set = (values: Record<string, string>, more: Record<string, string[]> = {}) =>
  node.call(`PUT ${CONFIG}`, { vmid: 100, ...values }, { "/vms/100": mine, ...more });
const space = { "/storage/local": ["Datastore.AllocateSpace"] };

describe("drives that a request names", () => {
  it("need space on the storage that they are allocated on", async () => {
    await expect(set({ scsi1: "local:0.01" })).rejects.toThrow("/storage/local, Datastore.AllocateSpace");
    expect(await set({ scsi1: "local:0.01" }, space)).toBeNull();
    expect(await set({ ide2: "none,media=cdrom" })).toBeNull();
  });

  it("are the VM's own, or need rights on their storage or their VM", async () => {
    const own = String(node.values(100)["scsi0"]).split(",")[0] ?? "";
    expect(await set({ scsi0: `${own},backup=0` })).toBeNull();
    const other = String(node.values(200)["scsi0"]).split(",")[0] ?? "";
    await expect(set({ scsi1: other })).rejects.toThrow("Permission check failed (/storage/local");
    await expect(set({ ide2: "local:iso/a.iso,media=cdrom" })).rejects.toThrow("Permission check failed");
    expect(await set({ ide2: "local:iso/a.iso,media=cdrom" }, space)).toBeNull();
    const all = { "/storage/local": ["Datastore.Allocate"] };
    await expect(set({ scsi2: "local:snippets/a.yaml" }, all)).rejects.toMatchObject({
      errors: { scsi2: "content type needs to be 'images' or 'iso'" },
    });
  });

  it("are files of the host for root alone", async () => {
    const refusal = "Only root can pass arbitrary filesystem paths.";
    const all = { "/storage/local": ["Datastore.Allocate"] };
    await expect(set({ scsi1: "/dev/sda" }, all)).rejects.toThrow(refusal);
    await expect(set({ scsi1: "local:0,import-from=/etc/passwd" }, space)).rejects.toThrow(refusal);
    expect(await node.call(`PUT ${CONFIG}`, { vmid: 100, scsi1: "/dev/sda" }, "root")).toBeNull();
  });

  it("are imported from images, with the rights that a copy needs", async () => {
    await expect(set({ scsi1: "local:0,import-from=local:iso/a.iso" }, space)).rejects.toMatchObject({
      errors: { scsi1: "local:iso/a.iso has wrong type 'iso' - needs to be 'images' or 'import'" },
    });
    const other = String(node.values(200)["scsi0"]).split(",")[0] ?? "";
    const copy = { scsi1: `local:0,import-from=${other}` };
    await expect(set(copy, space)).rejects.toThrow("/vms/200, VM.Clone");
    expect(await set(copy, { ...space, "/vms/200": ["VM.Clone"] })).toBeNull();
    expect(await set({ scsi2: "local:0,import-from=local:import/a.raw" }, space)).toBeNull();
  });
});
