import { given } from "@gpve/contracts/given.ts";
import { expect, test } from "vitest";
import type { Exec } from "@gpve/kit/exec.ts";
import { ensureBridges } from "./declared-bridges.ts";

interface Link {
  readonly ifname: string;
  readonly master?: string;
  readonly kind?: string;
  readonly vlan?: number;
  readonly addresses?: readonly string[];
}

/** A host of the given links; what is done to it is written down. */
function host(...links: Link[]): { exec: Exec; done: string[] } {
  const done: string[] = [];
  const rows = links.map(({ ifname, master, kind, vlan, addresses = [] }, at) => ({
    ifindex: at + 1,
    ifname,
    ...given({ master }),
    ...(kind === undefined
      ? {}
      : { linkinfo: { info_kind: kind, info_data: { vlan_filtering: vlan ?? 0 } } }),
    addr_info: addresses.map((each) => ({
      local: each.split("/")[0],
      prefixlen: Number(each.split("/")[1]),
    })),
  }));
  const exec: Exec = (file, args) => {
    if (args[0] === "-j") return Promise.resolve({ stdout: JSON.stringify(rows), stderr: "", code: 0 });
    if (args.includes("broken")) return Promise.reject(new Error("no such device"));
    done.push([file, ...args].join(" "));
    return Promise.resolve({ stdout: "", stderr: "", code: 0 });
  };
  return { exec, done };
}
const log = { info: () => undefined, error: () => undefined };
const plain = { vlanAware: false, ports: [] };

test("makes a bridge that is absent, VLAN-aware with its ports", async () => {
  const { exec, done } = host({ ifname: "eth1", addresses: ["fe80::1/64"] });
  const bridge = { name: "vmbr1", address: "192.0.2.1/24", vlanAware: true, ports: ["eth1"] };
  expect(await ensureBridges([bridge], { exec, log, uid: 0 })).toEqual([
    { name: "bridge vmbr1", available: true, detail: "as configured: 192.0.2.1/24, VLAN-aware, eth1" },
  ]);
  expect(done).toEqual([
    "ip link add name vmbr1 type bridge",
    "ip link set dev vmbr1 type bridge vlan_filtering 1",
    "ip address replace 192.0.2.1/24 dev vmbr1",
    "ip link set dev vmbr1 up",
    "ip link set dev eth1 master vmbr1",
    "ip link set dev eth1 up",
    "bridge vlan add dev eth1 vid 2-4094",
  ]);
});

test("leaves a bridge as it is where it has everything, and adds what it lacks", async () => {
  const there = host(
    { ifname: "vmbr0", kind: "bridge", vlan: 1, addresses: ["192.0.2.1/24"] },
    { ifname: "eth0", master: "vmbr0" },
  );
  const whole = { name: "vmbr0", address: "192.0.2.1/24", vlanAware: true, ports: ["eth0"] };
  await ensureBridges([whole], { exec: there.exec, log, uid: 0 });
  expect(there.done).toEqual(["ip link set dev vmbr0 up"]);
  const bare = host({ ifname: "vmbr0", kind: "bridge" });
  await ensureBridges([{ ...whole, ports: [] }], { exec: bare.exec, log, uid: 0 });
  expect(bare.done).toEqual([
    "ip link set dev vmbr0 type bridge vlan_filtering 1",
    "ip address replace 192.0.2.1/24 dev vmbr0",
    "ip link set dev vmbr0 up",
  ]);
});

test("takes no port that the machine needs, that others have or that is not there", async () => {
  const { exec, done } = host(
    { ifname: "eth0", addresses: ["198.51.100.7/24"] },
    { ifname: "eth1", master: "bond0" },
  );
  const bridge = { name: "vmbr0", vlanAware: false, ports: ["eth0", "eth1", "eth9"] };
  const [row] = await ensureBridges([bridge], { exec, log, uid: 0 });
  expect(row?.available).toBe(false);
  expect(row?.detail).toMatch(
    /^port 'eth0' of 'vmbr0' has 198.51.100.7\/24: .*give the address to the bridge first;/,
  );
  expect(row?.detail).toContain(
    "port 'eth1' of 'vmbr0' belongs to 'bond0'; port 'eth9' of 'vmbr0' does not exist",
  );
  expect(done.some((line) => line.includes("master"))).toBe(false);
});

test("makes the bridge all the same where the kernel knows no VLANs, and says so", async () => {
  const { exec, done } = host({ ifname: "eth1" });
  const without: Exec = (file, args, options) =>
    args.includes("vlan_filtering") ? Promise.reject(new Error("not supported")) : exec(file, args, options);
  const bridge = { name: "vmbr1", vlanAware: true, ports: ["eth1"] };
  expect(await ensureBridges([bridge], { exec: without, log, uid: 0 })).toMatchObject([
    {
      available: false,
      detail: "'vmbr1' cannot filter by VLAN, which this kernel may lack: not supported",
    },
  ]);
  expect(done.at(-1)).toBe("ip link set dev eth1 up");
});

test("says what stands in the way: no root, another kind of interface, a failure", async () => {
  const { exec } = host({ ifname: "vmbr0", kind: "bond" });
  const details = async (uid: number, name: string): Promise<string | undefined> =>
    (await ensureBridges([{ name, ...plain }], { exec, log, uid }))[0]?.detail;
  expect(await details(0, "vmbr0")).toBe("'vmbr0' is there and no bridge: choose another name");
  expect(await details(1000, "vmbr5")).toBe("'vmbr5' lacks everything, and only root can change that");
  expect(await details(0, "vcb7")).toContain("'vcb7' is the bridge of a virtual cluster");
  expect(await details(0, "broken")).toBe("'broken' could not be set up: no such device");
});
