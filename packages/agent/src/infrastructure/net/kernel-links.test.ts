import { expect, test } from "vitest";
import { bridgeMtus, kernelLink } from "./kernel-links.ts";

const texts: Readonly<Record<string, string>> = {
  "/sys/class/net/eth0/mtu": "9000\n",
  "/sys/class/net/vmbr0/mtu": "1400\n",
  "/sys/class/net/vmbr0/bridge/vlan_filtering": "0\n",
  "/sys/class/net/vmbr1/mtu": "1500\n",
  "/sys/class/net/vmbr1/bridge/vlan_filtering": "1\n",
};
const lists: Readonly<Record<string, readonly string[]>> = {
  "/sys/class/net": ["bonding_masters", "eth0", "vmbr0", "vmbr1"],
  "/sys/class/net/vmbr0/bridge": ["vlan_filtering"],
  "/sys/class/net/vmbr1/bridge": ["vlan_filtering"],
};
const files = {
  read: async (path: string) => texts[path],
  list: async (path: string) => lists[path] ?? [],
};

test("an interface is what the kernel's files say", async () => {
  expect(await kernelLink(files, "eth0")).toEqual({ name: "eth0", mtu: 9000, kind: "" });
  expect(await kernelLink(files, "vmbr0")).toEqual({
    name: "vmbr0",
    mtu: 1400,
    kind: "bridge",
    vlanAware: false,
  });
  expect(await kernelLink(files, "vmbr1")).toMatchObject({ kind: "bridge", vlanAware: true });
});

test("no other files are read, whatever somebody calls a bridge", async () => {
  for (const name of ["", "none", "bonding_masters", "../net/eth0", "vmbr0/bridge"])
    expect(await kernelLink(files, name)).toBeUndefined();
});

test("bridges have their MTUs", async () => {
  expect(await bridgeMtus(files)).toEqual({ vmbr0: 1400, vmbr1: 1500 });
});
