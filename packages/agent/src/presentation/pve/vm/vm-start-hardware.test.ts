// What a start gives a guest that its configuration alone does not say.
import { afterEach, beforeEach, expect, it } from "vitest";
import { VmNode } from "../../../testing/vm-world.ts";

const VM = "/nodes/{node}/qemu/{vmid}" as const;
const SMBIOS = "uuid=00000000-0000-0000-0000-000000000001";

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
});
afterEach(() => node.close());

const start = async (vmid: number) => node.task(`POST ${VM}/status/start`, { vmid });
const last = () => {
  const found = node.guests.starts.at(-1);
  if (found === undefined) expect.fail("nothing was started");
  return found;
};

it("gives taps their bridge's MTU whatever the card says, and queues to virtio cards alone", async () => {
  Object.assign(node.host.network, { bridge: async () => ({ device: "vmbr0", mtu: 9000 }) });
  await node.add(100, {
    smbios1: SMBIOS,
    net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0,mtu=1400,queues=2",
    net1: "e1000=BC:24:11:00:00:02,bridge=vmbr0,queues=4",
  });
  expect(await start(100)).toMatchObject({ exitStatus: "OK" });
  expect(last().taps).toMatchObject([
    { mtu: 9000, queues: 2 },
    { mtu: 9000, queues: 1 },
  ]);
  expect(last().args.join(" ")).toContain("host_mtu=1400");
  expect(last().vhost).toMatchObject({ count: 2 });
});

it("opens the boot menu for guests with a screen", async () => {
  await node.add(100, { smbios1: SMBIOS });
  await start(100);
  expect(last().args).toContain("menu=on,strict=on,reboot-timeout=1000");
});

it("keeps the address that a card without one was given", async () => {
  await node.add(100, { smbios1: SMBIOS, net0: "virtio,bridge=vmbr0,queues=2" });
  await start(100);
  const kept = node.values(100)["net0"] ?? "";
  expect(kept).toMatch(/^virtio=BC:24:11:[0-9A-F]{2}:[0-9A-F]{2}:[0-9A-F]{2},bridge=vmbr0,queues=2$/);
  const mac = /BC[0-9A-F:]+/.exec(kept)?.[0] ?? "";
  expect(last().args.join(" ")).toContain(`mac=${mac}`);
  expect([...node.logs.lines.values()].flat()).toContain(`net0: has no MAC address: it is given ${mac}`);
  // An old configuration that comes back gets the same one; another VM does not.
  await node.task(`POST ${VM}/status/stop`, { vmid: 100 });
  await node.configs.change(100, ({ values, ...rest }) => ({
    ...rest,
    values: { ...values, net0: "virtio,bridge=vmbr0" },
  }));
  await start(100);
  expect(node.values(100)["net0"]).toBe(`virtio=${mac},bridge=vmbr0`);
  await node.add(101, { smbios1: SMBIOS.replace(/1$/, "2"), net0: "virtio,bridge=vmbr0" });
  await start(101);
  expect(node.values(101)["net0"]).not.toContain(mac);
});

it("gives a disk whose changes nobody keeps an image above it, and the volume to read only", async () => {
  const volume = await node.addWithDisk(100);
  await node.configs.change(100, ({ values, ...rest }) => ({
    ...rest,
    values: { ...values, smbios1: SMBIOS, scsi0: `local:${volume},snapshot=1` },
  }));
  expect(await start(100)).toMatchObject({ exitStatus: "OK" });
  const { files, ioFiles, args } = last();
  expect(files).toContainEqual(
    expect.objectContaining({ path: expect.stringContaining(volume), access: "ro" }),
  );
  expect(ioFiles).toEqual([{ name: "scsi0.overlay", content: expect.any(Uint8Array) }]);
  expect(args.join(" ")).toContain('"filename":"/nowhere/100/scsi0.overlay"');
  await node.add(101, { smbios1: SMBIOS, scsi0: "/dev/sdz,snapshot=1" });
  expect((await start(101)).exitStatus).toMatch(/^scsi0: snapshot=1 needs the volume of a storage/);
});

it("says which limits it cannot keep", async () => {
  await node.add(100, { smbios1: SMBIOS, cpulimit: "0.5", cpuunits: "0" });
  node.guests.confinement = { level: "none", detail: "not root" };
  expect((await start(100)).exitStatus).toBe("WARNINGS: 1");
  expect([...node.logs.lines.values()].flat().join("\n")).toContain("cpulimit 0.5 is not kept: not root");
});

it("takes no disk without a volume, neither when it is asked for nor at the start", async () => {
  await node.add(100, { smbios1: SMBIOS });
  await expect(node.call(`PUT ${VM}/config`, { vmid: 100, scsi0: "none" }, "root")).rejects.toMatchObject({
    errors: { scsi0: expect.stringContaining("a disk cannot be 'none'") },
  });
  await node.add(101, { smbios1: SMBIOS, scsi0: "none" });
  expect((await start(101)).exitStatus).toContain("a disk cannot be 'none'");
});
