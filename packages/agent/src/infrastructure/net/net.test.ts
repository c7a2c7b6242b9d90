import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { checkBridge, vlanCommands } from "./bridge-check.ts";
import { bridgeFacts, type NetInterface, parseInterfaces } from "./interfaces.ts";
import { keepGuestNetwork } from "./nat/make-guest-network.ts";
import { NatBridge } from "./nat/nat-bridge.ts";
import { kernelBridge } from "./nat/nat-network.ts";
import { limitRate } from "./filter/rate-limit.ts";
import { freeSubnet, ipv4Number, ipv4Range, ipv4Text } from "./nat/subnet.ts";
import { tapName } from "./tap-name.ts";
import { VmBridges } from "./vm-bridges.ts";

const bridge: NetInterface = {
  name: "vmbr0",
  index: 3,
  mtu: 1500,
  mac: "02:00:00:00:00:01",
  up: true,
  kind: "bridge",
  addresses: [],
  vlanAware: false,
};

describe("the host's interfaces", () => {
  it("are read from ip", async () => {
    const json = JSON.stringify([
      { ifindex: 1, ifname: "lo", flags: ["LOOPBACK", "UP"], mtu: 65536, address: "00:00:00:00:00:00" },
      {
        ifindex: 3,
        ifname: "vmbr0",
        flags: [],
        mtu: 1500,
        address: "02:00:00:00:00:01",
        ifalias: "gpve-abcdef",
        linkinfo: { info_kind: "bridge", info_data: { vlan_filtering: 1 } },
        addr_info: [{ family: "inet", local: "10.0.0.1", prefixlen: 24 }],
      },
      { ifindex: 4, ifname: "tap1", master: "vmbr0", linkinfo: { info_kind: "tun" } },
    ]);
    expect(parseInterfaces(json)).toMatchObject([
      { name: "lo", kind: "", up: true },
      {
        name: "vmbr0",
        kind: "bridge",
        up: false,
        vlanAware: true,
        alias: "gpve-abcdef",
        addresses: ["10.0.0.1/24"],
      },
      { name: "tap1", master: "vmbr0", kind: "tun", mtu: 0 },
    ]);
    expect(parseInterfaces("")).toEqual([]);
  });
});

describe("a tap's name", () => {
  it("is PVE's, or carries the instance where that is taken or too long", () => {
    const free = { id: "abcdef", taken: () => false };
    expect(tapName(100, 0, free)).toBe("tap100i0");
    expect(tapName(999_999_999, 31, free)).toBe("tap999999999i31");
    expect(tapName(100, 0, { id: "abcdef", taken: () => true })).toBe("gabcdef4xs");
    fc.assert(
      fc.property(
        fc.integer({ min: 100, max: 999_999_999 }),
        fc.integer({ min: 0, max: 31 }),
        (vmid, nic) => {
          expect(tapName(vmid, nic, { id: "abcdef", taken: () => true }).length).toBeLessThanOrEqual(15);
        },
      ),
    );
    expect(() => tapName(100, 0, { id: "too-long-an-instance", taken: () => true })).toThrow(
      "no interface name",
    );
  });
});

describe("a NIC's bridge", () => {
  it("must be there, be a bridge, and filter VLANs when asked to", () => {
    checkBridge({ key: "net0", bridge: "vmbr0" }, [bridge]);
    const cluster = { ...bridge, name: "vcb7" };
    expect(() => checkBridge({ key: "net0", bridge: "vcb7" }, [bridge, cluster])).toThrow(
      "net0: 'vcb7' is the bridge of a virtual cluster, which nobody else can be on",
    );
    expect(bridgeFacts([cluster, bridge]).map(({ name }) => name)).toEqual(["vmbr0"]);
    checkBridge({ key: "net0", bridge: "vmbr0", tag: 5 }, [{ ...bridge, vlanAware: true }]);
    expect(() => checkBridge({ key: "net0", bridge: "vmbr1" }, [bridge])).toThrow(
      "bridge 'vmbr1' does not exist",
    );
    expect(() => checkBridge({ key: "net0", bridge: "vmbr0" }, [{ ...bridge, kind: "" }])).toThrow(
      "not a bridge",
    );
    expect(() => checkBridge({ key: "net0", bridge: "vmbr0", tag: 5 }, [bridge])).toThrow(
      "does not filter VLANs",
    );
    expect(() => checkBridge({ key: "net0", bridge: "vmbr0", trunks: "2;3" }, [bridge])).toThrow(
      "VLAN aware",
    );
  });

  it("gives a tap its VLANs", () => {
    expect(vlanCommands("tap1", { tag: 5, trunks: "7;9-11" }).map((words) => words.join(" "))).toEqual([
      "vlan del dev tap1 vid 1-4094",
      "vlan add dev tap1 vid 7",
      "vlan add dev tap1 vid 9-11",
      "vlan add dev tap1 vid 5 pvid untagged",
    ]);
  });

  it("is the instance's own where another data directory has the plain name", () => {
    expect(kernelBridge("vmbr0", "abcdef", [bridge])).toBe("vmbr0");
    expect(kernelBridge("vmbr0", "abcdef", [bridge, { ...bridge, name: "gabcdefvmbr0" }])).toBe(
      "gabcdefvmbr0",
    );
  });
});

describe("subnets", () => {
  it("are numbers and back", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), (value) => {
        expect(ipv4Number(ipv4Text(value))).toBe(value);
      }),
    );
    expect(ipv4Range("fe80::1/64")).toBeUndefined();
    expect(ipv4Range("10.0.0.1/33")).toBeUndefined();
    expect(ipv4Number("1.2.3.256")).toBeUndefined();
  });

  it("are chosen free of the host's own", () => {
    expect(freeSubnet(["0.0.0.0/0", "default", "192.168.1.0/24"])).toBe("10.37.0.0/24");
    expect(freeSubnet(["10.37.0.77/24", "10.37.1.0/25"])).toBe("10.37.2.0/24");
    expect(freeSubnet(["10.0.0.0/8"])).toBeUndefined();
  });
});

describe("a rate limit", () => {
  const table = "gpve_abcdef";
  const kernel = (lacks: RegExp): { exec: Exec; calls: string[] } => {
    const calls: string[] = [];
    return {
      calls,
      exec: async (file, args) => {
        const line = args.join(" ");
        calls.push(`${file} ${line}`);
        if (lacks.test(line)) throw new AppError("internal.error", `tc failed: ${line}`);
        return await Promise.resolve({ code: 0, stdout: "", stderr: "" });
      },
    };
  };

  it("shapes what goes to the guest and polices what comes from it", async () => {
    const { exec, calls } = kernel(/ del |delete/);
    expect(await limitRate("tap1", 1.5, { exec, table })).toEqual({
      toGuest: "htb",
      fromGuest: "police",
      missing: [],
    });
    expect(calls.some((line) => line.includes("rate 1572864bps"))).toBe(true);
  });

  it("uses what the kernel has and says what it lacks", async () => {
    const limit = (lacks: RegExp, rate = 1) => limitRate("tap1", rate, { ...kernel(lacks), table });
    expect(await limit(/htb|basic/)).toEqual({
      toGuest: "tbf",
      fromGuest: "police",
      missing: [],
    });
    expect(await limit(/ingress|tbf/)).toMatchObject({
      toGuest: "htb",
      fromGuest: "none",
      missing: [expect.stringMatching(/^what comes from the guest is not limited: ingress: /)],
    });
    await expect(limit(/add|replace/)).rejects.toMatchObject({ code: "feature.unsupported" });
    expect(await limit(/add/, 0)).toEqual({
      toGuest: "none",
      fromGuest: "none",
      missing: [],
    });
  });
});

describe("a rate limit of a kernel without policer", () => {
  it("is kept by nftables, and taken away with the rate", async () => {
    const calls: string[] = [];
    const exec: Exec = async (file, args) => {
      calls.push(`${file} ${args.join(" ")}`);
      if (args.includes("police")) throw new AppError("internal.error", "TC classifier not found");
      const stdout =
        "table netdev gpve_abcdef_tap1\ntable netdev gpve_abcdef_tap2\ntable netdev gpve_0_tap3\n";
      return await Promise.resolve({ code: 0, stdout, stderr: "" });
    };
    expect(await limitRate("tap1", 2, { exec, table: "gpve_abcdef" })).toEqual({
      toGuest: "htb",
      fromGuest: "nft",
      missing: [],
    });
    expect(calls.at(-1)).toBe(
      'nft add table netdev gpve_abcdef_tap1; add chain netdev gpve_abcdef_tap1 rate { type filter hook ingress device "tap1" priority 0; policy accept; }; add rule netdev gpve_abcdef_tap1 rate limit rate over 2097152 bytes/second burst 1048576 bytes drop',
    );
    calls.length = 0;
    await limitRate("tap1", 0, { exec, table: "gpve_abcdef" });
    expect(calls).toContain("nft delete table netdev gpve_abcdef_tap1");
    calls.length = 0;
    let taps = ["tap1"];
    const bridges = new VmBridges({ instanceId: "abcdef", exec, exists: (name) => taps.includes(name) });
    expect(await bridges.configure("tap1", { model: "virtio", rate: 2 })).toEqual([]);
    calls.length = 0;
    await bridges.sweep();
    expect(calls).toEqual(["nft list tables netdev", "nft delete table netdev gpve_abcdef_tap2"]);
    taps = [];
    await bridges.sweep();
    expect(calls.at(-1)).toBe("nft delete table netdev gpve_abcdef_tap2");
    calls.length = 0;
    await bridges.sweep();
    expect(calls).toEqual([]);
  });
});

describe("the NAT bridge", () => {
  let folder: string;
  let interfaces: Record<string, unknown>[];
  let calls: string[];
  let tables: string;
  let children: Child[];
  const soon: Clock = {
    ...systemClock,
    sleep: async () => {
      await systemClock.sleep(20);
    },
  };

  const exec: Exec = async (file, args, options) => {
    const line = [file, ...args].join(" ");
    calls.push(options?.input === undefined ? line : `${line} < ${String(options.input)}`);
    let stdout = "";
    if (line.includes("address show")) stdout = JSON.stringify(interfaces);
    if (line.includes("route show"))
      stdout = JSON.stringify([{ dst: "default" }, { dst: "10.37.0.0/24" }, {}]);
    if (line === "nft list tables") stdout = tables;
    const added = /link add name (\S+)/.exec(line)?.[1];
    if (added !== undefined)
      interfaces.push({ ifindex: 9, ifname: added, linkinfo: { info_kind: "bridge" } });
    const alias = /set dev (\S+) alias (\S+)/.exec(line);
    if (alias !== null)
      for (const found of interfaces) if (found["ifname"] === alias[1]) found["ifalias"] = alias[2];
    return await Promise.resolve({ code: 0, stdout, stderr: "" });
  };

  const open = (program = "/usr/bin/sleep", more: { besideOthers?: boolean } = {}): NatBridge =>
    new NatBridge({
      ...more,
      instanceId: "abcdef",
      runFolder: folder,
      exec,
      clock: soon,
      enableForwarding: () => calls.push("forwarding"),
      spawn: (_file, args) => {
        calls.push(`dnsmasq ${args.join(" ")}`);
        const child = startChild(program, ["100"]);
        children.push(child);
        return child.pid;
      },
    });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-net-"));
    interfaces = [{ ifindex: 1, ifname: "lo" }];
    calls = [];
    tables = "table ip gpve_abcdef\n";
    children = [];
  });

  afterEach(async () => {
    for (const child of children) await child.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("is made with DHCP and masquerade on a free subnet, once", async () => {
    const network = await open().ensure();
    expect(network).toMatchObject({
      name: "vmbr0",
      bridge: "vmbr0",
      subnet: "10.37.1.0/24",
      gateway: "10.37.1.1",
    });
    expect(calls).toContain("forwarding");
    expect(readFileSync(join(folder, "vmbr0.nft.json"), "utf8")).toContain('"masquerade":null');
    expect(calls.find((line) => line.startsWith("dnsmasq"))).toContain(
      "--dhcp-range=10.37.1.100,10.37.1.250",
    );
    calls.length = 0;
    expect(await open().ensure()).toEqual(network);
    expect(calls.some((line) => line.includes("link add") || line.startsWith("dnsmasq"))).toBe(false);
    const note = JSON.parse(readFileSync(join(folder, "vmbr0.json"), "utf8")) as { dnsmasq: { pid: number } };
    expect(note.dnsmasq.pid).toBe(children[0]?.pid);
    await open().teardown();
    expect(await children[0]?.exited).toBe("SIGTERM");
    expect(calls).toContain("nft delete table ip gpve_abcdef");
    expect(calls).toContain("ip link delete dev vmbr0");
  });

  it("is made again where a part of it is gone", async () => {
    const network = open();
    await network.ensure();
    expect(await network.isWhole()).toBe(true);
    tables = "";
    expect(await network.isWhole()).toBe(false);
    tables = "table ip gpve_abcdef\n";
    await children[0]?.stop();
    expect(await network.isWhole()).toBe(false);
    const stop = new AbortController();
    const looks: number[] = [];
    await keepGuestNetwork(
      network,
      {
        clock: {
          sleep: async (ms) => {
            looks.push(ms);
            if (looks.length === 3) stop.abort();
          },
        },
        log: silentLogger,
      },
      stop.signal,
    );
    expect(await network.isWhole()).toBe(true);
    expect(calls.filter((line) => line.startsWith("dnsmasq"))).toHaveLength(2);
    interfaces = [];
    expect(await network.isWhole()).toBe(false);
    await network.teardown();
  });

  it("stays away, and is tried again, where repairing fails", async () => {
    const stop = new AbortController();
    let tried = 0;
    const network = {
      isWhole: async () => false,
      ensure: async () => {
        tried += 1;
        throw new Error("no nft");
      },
    };
    const sleep = async (): Promise<void> => {
      if (tried === 2) stop.abort();
    };
    await keepGuestNetwork(network, { clock: { sleep }, log: silentLogger }, stop.signal);
    expect(tried).toBe(2);
  });

  it("is made beside the bridges of other tools", async () => {
    interfaces.push({ ifindex: 2, ifname: "docker0", linkinfo: { info_kind: "bridge" } });
    expect(await open().ensure()).toMatchObject({ name: "vmbr0", bridge: "vmbr0" });
    await open().teardown();
    expect(calls).not.toContain("ip link delete dev docker0");
  });

  it("leaves a host with a bridge of its own alone", async () => {
    interfaces.push({ ifindex: 2, ifname: "vmbr1", linkinfo: { info_kind: "bridge" } });
    expect(await open().ensure()).toBeUndefined();
    tables = "";
    calls.length = 0;
    await open().teardown();
    expect(calls.some((line) => line.includes("delete"))).toBe(false);
  });

  it("is made beside the host's own bridge where that is asked for", async () => {
    interfaces.push({ ifindex: 2, ifname: "vmbr1", linkinfo: { info_kind: "bridge" } });
    const network = open(undefined, { besideOthers: true });
    expect(await network.ensure()).toMatchObject({ bridge: "vmbr0" });
    await network.teardown();
    expect(calls).not.toContain("ip link delete dev vmbr1");
  });

  it("has a name of its own beside another data directory's", async () => {
    interfaces.push({
      ifindex: 2,
      ifname: "vmbr0",
      ifalias: "gpve-123456",
      linkinfo: { info_kind: "bridge" },
    });
    expect(await open().ensure()).toMatchObject({ name: "vmbr0", bridge: "gabcdefvmbr0" });
    await open().teardown();
    expect(calls).toContain("ip link delete dev gabcdefvmbr0");
  });

  it("says so when dnsmasq does not stay", async () => {
    await expect(open("/bin/false").ensure()).rejects.toThrow("dnsmasq does not run");
  });
});
