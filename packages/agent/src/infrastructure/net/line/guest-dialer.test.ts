import { beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { LineTarget } from "@gpve/domain/guest/guest-lines.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { BridgeDialer } from "./guest-dialer.ts";
import type { LinePlace } from "./line-process.ts";

const MAC = "BC:24:11:00:00:01";
const OTHER = "bc:24:11:00:00:02";
const silent = (): void => undefined;
const signal = new AbortController().signal;

let neighbours: { dst: string; lladdr?: string; state: string[] }[];
let learned: { mac: string; ifname: string; master: string; state: string }[];
let opened: LinePlace[];
let pinned: string[];
let answer: (place: LinePlace, signal: AbortSignal) => Promise<ConsoleSocket>;
let leases: Record<string, string>;
let clock: FakeClock;
let ended: PromiseWithResolvers<void>;
let pinFails: Error | undefined;

const link = (ifname: string, more: object = {}) => ({
  ifindex: 1,
  ifname,
  addr_info: [],
  linkinfo: { info_kind: "tun" },
  ...more,
});
const LINKS = [
  link("vmbr0", {
    linkinfo: { info_kind: "bridge" },
    addr_info: [
      { local: "10.0.0.1", prefixlen: 24 },
      { local: "fd00::1", prefixlen: 64 },
    ],
  }),
  link("vmbr1", { linkinfo: { info_kind: "bridge" } }),
  link("vmbr1.7", { linkinfo: { info_kind: "vlan" }, addr_info: [{ local: "10.7.0.1", prefixlen: 24 }] }),
  link("tap100i0", { master: "vmbr0" }),
  link("tap100i1", { master: "vmbr1" }),
  link("eth0", { addr_info: [{ local: "192.0.2.2", prefixlen: 24 }] }),
];

const exec = ((file: string, args: readonly string[]) => {
  const about = [file, ...args].join(" ");
  const rows = about.includes("neigh") ? neighbours : about.startsWith("bridge") ? learned : LINKS;
  return Promise.resolve({ stdout: JSON.stringify(rows), stderr: "", code: 0 });
}) as unknown as Exec;

function socket(): ConsoleSocket {
  return {
    output: (async function* () {})(),
    write: () => Promise.resolve(),
    close: () => ended.resolve(),
    closed: ended.promise,
  };
}

beforeEach(() => {
  neighbours = [{ dst: "10.0.0.7", lladdr: MAC.toLowerCase(), state: ["REACHABLE"] }];
  learned = [{ mac: MAC.toLowerCase(), ifname: "tap100i0", master: "vmbr0", state: "" }];
  [opened, pinned, leases, pinFails] = [[], [], {}, undefined];
  clock = new FakeClock(0);
  ended = Promise.withResolvers<void>();
  answer = () => Promise.resolve(socket());
});

const card = { key: "net0", mac: MAC, tap: "tap100i0" };
function dial(address?: string, more: Partial<LineTarget> = {}) {
  const dialer = new BridgeDialer({
    node: "n1",
    exec,
    log: { error: silent },
    clock,
    pins: {
      add: (device, taps) => {
        if (pinFails !== undefined) return Promise.reject(pinFails);
        pinned.push(`${device}: ${taps.join(" ")}`);
        return Promise.resolve({ mark: 7, device, taps });
      },
      remove: ({ mark }) => Promise.resolve(void pinned.push(`removed ${mark}`)),
    },
    open: (place, sent) => {
      opened.push(place);
      return answer(place, sent);
    },
    leasedAddress: (mac) => leases[mac],
  });
  const target = { label: "VM 100", cards: [card], port: 50_000, ...more };
  return dialer.dial(address === undefined ? target : { ...target, address }, signal);
}

describe("dialling a guest", () => {
  test("by an address that the node sees at its card, kept to its tap until it ends", async () => {
    const line = await dial("10.0.0.7");
    expect(line.address).toBe("10.0.0.7");
    expect(opened).toEqual([{ device: "vmbr0", mark: 7, address: "10.0.0.7", port: 50_000 }]);
    expect(pinned).toEqual(["vmbr0: tap100i0"]);
    line.socket.close();
    await expect.poll(() => pinned).toEqual(["vmbr0: tap100i0", "removed 7"]);
  });

  test("without one, by what was leased to it or seen at it, and usable", async () => {
    expect((await dial()).address).toBe("10.0.0.7");
    leases = { [MAC.toLowerCase()]: "10.0.0.8" };
    neighbours.push({ dst: "10.0.0.8", lladdr: MAC.toLowerCase(), state: ["STALE"] });
    expect((await dial()).address).toBe("10.0.0.8");
    leases = {};
    neighbours = [
      { dst: "fe80::7", lladdr: MAC, state: ["REACHABLE"] },
      { dst: "10.0.0.1", lladdr: MAC, state: ["REACHABLE"] },
      { dst: "10.5.0.1", lladdr: MAC, state: ["REACHABLE"] },
      { dst: "fd00::7", lladdr: MAC, state: ["REACHABLE"] },
    ];
    expect((await dial()).address).toBe("fd00::7");
    neighbours = [{ dst: "10.0.0.9", lladdr: OTHER, state: ["REACHABLE"] }];
    await expect(dial()).rejects.toMatchObject({
      code: "object.conflict",
      message: expect.stringContaining("has seen no address at its cards yet"),
    });
  });

  test("in a VLAN, by the node's interface there", async () => {
    const tagged = { key: "net1", mac: MAC, tap: "tap100i1", tag: 7 };
    neighbours = [{ dst: "10.7.0.9", lladdr: MAC, state: ["REACHABLE"] }];
    learned = [{ mac: MAC, ifname: "tap100i1", master: "vmbr1", state: "" }];
    await dial("10.7.0.9", { cards: [tagged] });
    expect(opened[0]?.device).toBe("vmbr1.7");
    const untagged = { key: "net1", mac: MAC, tap: "tap100i1" };
    await expect(dial("10.7.0.9", { cards: [untagged] })).rejects.toThrow("(vmbr1: none)");
  });

  test.each([
    ["10.0.0.1", "access.denied", "is node n1 itself (vmbr0)"],
    ["192.0.2.2", "access.denied", "is node n1 itself (eth0)"],
    ["192.0.2.9", "access.denied", "is never routed on"],
    ["127.0.0.1", "request.invalid", "loopback"],
  ])("%s is refused before anything is sent", async (address, code, words) => {
    await expect(dial(address)).rejects.toMatchObject({ code, message: expect.stringContaining(words) });
    expect([...opened, ...pinned]).toEqual([]);
  });

  test("is refused where somebody else has the address, as soon as that is known", async () => {
    neighbours = [{ dst: "10.0.0.9", lladdr: OTHER, state: ["REACHABLE"] }];
    await expect(dial("10.0.0.9")).rejects.toThrow(`sees 10.0.0.9 at ${OTHER} on vmbr0, which is no card`);
    expect(opened).toEqual([]);
    // Heard of while it is dialled.
    neighbours = [];
    answer = (_place, sent) =>
      new Promise((_resolve, reject) => {
        sent.addEventListener("abort", () => reject(sent.reason as Error));
        neighbours = [{ dst: "10.0.0.9", lladdr: OTHER, state: ["REACHABLE"] }];
      });
    const refused = expect(dial("10.0.0.9")).rejects.toMatchObject({ code: "access.denied" });
    await expect.poll(() => opened).toHaveLength(1);
    await clock.advance(1_000);
    await refused;
    await expect.poll(() => pinned).toContain("removed 7");
  });

  test("is refused where the answer came from behind another port, or the node saw nobody", async () => {
    learned = [{ mac: MAC, ifname: "tap101i0", master: "vmbr0", state: "" }];
    await expect(dial("10.0.0.7")).rejects.toThrow("behind tap101i0 of vmbr0, not at a card of VM 100");
    learned = [];
    await expect(dial("10.0.0.7")).rejects.toThrow("behind no port");
    neighbours = [];
    await expect(dial("10.0.0.7")).rejects.toThrow("sees 10.0.0.7 nowhere");
    await expect.poll(() => pinned.filter((each) => each === "removed 7")).toHaveLength(3);
  });

  test("tells what the kernel said when nobody answers", async () => {
    answer = () => Promise.reject(new AppError("node.unavailable", "Connection refused"));
    await expect(dial("10.0.0.7")).rejects.toMatchObject({
      code: "node.unavailable",
      message: expect.stringContaining(
        "10.0.0.7 on vmbr0: Connection refused; look whether the guest listens",
      ),
    });
    neighbours = [{ dst: "10.0.0.7", lladdr: OTHER, state: ["STALE"] }];
    await expect(dial("10.0.0.7")).rejects.toMatchObject({ code: "access.denied" });
    answer = () => Promise.reject(new Error("cancelled"));
    await expect(dial("10.0.0.7")).rejects.toThrow("cancelled");
  });

  test("is refused where there is no bridge, and where a line cannot be kept to the card", async () => {
    await expect(dial("10.0.0.7", { cards: [] })).rejects.toMatchObject({
      code: "feature.unsupported",
      message: expect.stringContaining("put a card on a bridge"),
    });
    pinFails = new Error("nft: not found");
    await expect(dial("10.0.0.7")).rejects.toMatchObject({
      code: "feature.unsupported",
      message: expect.stringContaining("nft: not found. Install nftables"),
    });
    expect(opened).toEqual([]);
  });
});
