import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { listPciDevices } from "../../../infrastructure/host/pci-devices.ts";
import { interfaceRows } from "../../../infrastructure/net/interface-rows.ts";
import { createHostHandlers } from "./host-handlers.ts";

const folders: string[] = [];
afterEach(() => folders.splice(0).forEach((folder) => rmSync(folder, { recursive: true })));

const links = [
  { ifindex: 1, ifname: "lo", flags: ["UP"], mtu: 65536, addr_info: [{ local: "127.0.0.1", prefixlen: 8 }] },
  {
    ifindex: 2,
    ifname: "eth0",
    flags: ["UP"],
    mtu: 9000,
    addr_info: [
      { local: "192.0.2.5", prefixlen: 24 },
      { local: "2001:db8::5", prefixlen: 64 },
    ],
  },
  {
    ifindex: 3,
    ifname: "vmbr0",
    flags: [],
    mtu: 1500,
    linkinfo: { info_kind: "bridge", info_data: { vlan_filtering: 1 } },
  },
  { ifindex: 4, ifname: "tap100i0", mtu: 1500, master: "vmbr0", linkinfo: { info_kind: "tun" } },
  { ifindex: 5, ifname: "eth1", mtu: 1500, master: "vmbr0" },
  { ifindex: 6, ifname: "bond0", mtu: 1500, linkinfo: { info_kind: "bond" } },
  { ifindex: 7, ifname: "eth0.12", mtu: 1500, linkinfo: { info_kind: "vlan" } },
  // Of a virtual cluster: nobody's to see.
  { ifindex: 8, ifname: "vcb7", mtu: 1500, linkinfo: { info_kind: "bridge" } },
  { ifindex: 9, ifname: "vcp7", mtu: 1500, master: "vcb7", linkinfo: { info_kind: "veth" } },
];

const fakeExec = (async (_file: string, args: readonly string[]) => ({
  stdout: args.includes("route")
    ? args.includes("-4")
      ? JSON.stringify([{ dst: "default", gateway: "192.0.2.1", dev: "eth0" }])
      : ""
    : JSON.stringify(links),
  stderr: "",
})) as unknown as Exec;

const ctx = {} as RequestContext;
const handlers = createHostHandlers({
  interfaces: () => interfaceRows(fakeExec),
  pciDevices: () => [
    { id: "0000:00:00.0", class: "0x060000" },
    { id: "0000:00:02.0", class: "0x030000" },
  ],
  usbDevices: () => [{ busnum: 1, vendid: "046d" }],
  mdevTypes: (device) => [{ type: `i915-of-${device.slice(-1)}`, available: 1 }],
  mappedPci: (id) =>
    id === "gpu" ? ["0000:00:02.1", "00:02.0", "0000:00:02.0", "0000:00:02.0;0000:00:02.1"] : undefined,
});

test("shows USB devices, and what a PCI device or a mapping of some can be divided into", () => {
  expect(handlers["GET /nodes/{node}/hardware/usb"]?.({ node: "n1" }, ctx)).toMatchObject([{ busnum: 1 }]);
  const types = (wanted: string): unknown =>
    handlers["GET /nodes/{node}/hardware/pci/{pci-id-or-mapping}/mdev"]?.(
      { node: "n1", "pci-id-or-mapping": wanted },
      ctx,
    );
  expect(types("00:02.1")).toMatchObject([{ type: "i915-of-1" }]);
  expect(types("gpu")).toMatchObject([{ type: "i915-of-0" }, { type: "i915-of-1" }]);
  expect(types("nothing")).toEqual([]);
});

test("shows interfaces with addresses, gateway and ports, and nothing of guests", async () => {
  const rows = (await handlers["GET /nodes/{node}/network"]?.({ node: "n1" }, ctx)) as { iface: string }[];
  expect(rows.map(({ iface }) => iface)).toEqual(["bond0", "eth0", "eth0.12", "eth1", "vmbr0"]);
  expect(rows[1]).toMatchObject({
    type: "eth",
    active: 1,
    method: "static",
    address: "192.0.2.5",
    netmask: "24",
    cidr: "192.0.2.5/24",
    gateway: "192.0.2.1",
    address6: "2001:db8::5",
    mtu: "9000",
    families: ["inet", "inet6"],
  });
  expect(rows[2]).toMatchObject({ type: "vlan", "vlan-raw-device": "eth0", "vlan-id": "12" });
  expect(rows[4]).toMatchObject({
    type: "bridge",
    bridge_ports: "eth1",
    bridge_vlan_aware: 1,
    method: "manual",
  });
  expect(rows[4]).not.toHaveProperty("active");
});

test("shows only interfaces of the asked type", async () => {
  const names = async (type: "bridge" | "any_bridge" | "bond") => {
    const rows = await handlers["GET /nodes/{node}/network"]?.({ node: "n1", type }, ctx);
    return (rows as { iface: string }[]).map(({ iface }) => iface);
  };
  expect(await names("bridge")).toEqual(["vmbr0"]);
  expect(await names("any_bridge")).toEqual(["vmbr0"]);
  expect(await names("bond")).toEqual(["bond0"]);
});

test("shows one interface, or says that there is none", async () => {
  const one = handlers["GET /nodes/{node}/network/{iface}"];
  expect(await one?.({ node: "n1", iface: "vmbr0" }, ctx)).toMatchObject({ type: "bridge" });
  await expect(one?.({ node: "n1", iface: "nope" }, ctx)).rejects.toMatchObject({
    errors: { iface: "interface does not exist" },
  });
});

test("leaves out PCI devices nobody passes through, unless asked", () => {
  const pci = handlers["GET /nodes/{node}/hardware/pci"];
  expect(pci?.({ node: "n1" }, ctx)).toEqual([{ id: "0000:00:02.0", class: "0x030000" }]);
  expect(pci?.({ node: "n1", "pci-class-blacklist": "", verbose: false }, ctx)).toEqual([
    "0000:00:00.0",
    "0000:00:02.0",
  ]);
});

test("reads PCI devices from the kernel's folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-pci-"));
  folders.push(folder);
  mkdirSync(join(folder, "0000:00:02.0"));
  writeFileSync(join(folder, "0000:00:02.0", "class"), "0x030000\n");
  writeFileSync(join(folder, "0000:00:02.0", "vendor"), "0x8086\n");
  mkdirSync(join(folder, "7"));
  symlinkSync(join(folder, "7"), join(folder, "0000:00:02.0", "iommu_group"));
  expect(listPciDevices(folder)[0]).toMatchObject({
    id: "0000:00:02.0",
    class: "0x030000",
    vendor: "0x8086",
    device: "0x0000",
    iommugroup: 7,
  });
  expect(listPciDevices(join(folder, "nowhere"))).toEqual([]);
});
