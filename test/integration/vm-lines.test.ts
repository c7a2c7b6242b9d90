// Lines to guests in a kernel of their own: a namespace is the node with its bridge, others are guests at ports of it. What a
// guest makes the node believe must not lead a line to anybody else.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BridgeDialer } from "@gpve/agent/infrastructure/net/line/guest-dialer.ts";
import { LinePins } from "@gpve/agent/infrastructure/net/line/line-pins.ts";
import { openLine } from "@gpve/agent/infrastructure/net/line/line-process.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec, MINIMAL_ENV, type Exec } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { nodeBinary, root, untilPrinted } from "../support/gpve.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/sbin/nft") ? [] : ["nftables (apt-get install nftables)"]),
];
if (missing.length > 0) console.warn(`SKIPPED vm-lines: needs ${missing.join(", ")}`);

const NODE = `gpve-ln-${process.pid}`;
const guests = { a: `${NODE}a`, b: `${NODE}b` } as const;
const MACS = { a: "02:00:00:00:0a:01", b: "02:00:00:00:0b:01" } as const;
const ADDRESSES = { a: "10.99.7.2", b: "10.99.7.3" } as const;
const ROUTED = "10.99.8.9";
const PORT = 8080;
/** Says who it is, then sends back what it hears. */
const SERVICE = `require("net").createServer((s) => { s.write(process.argv[1] + ":"); s.pipe(s); s.on("error", () => {}); }).listen(${PORT}, () => console.log("listening"))`;

describe.skipIf(missing.length > 0)("a line to a guest", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-lines-"));
  const services: Child[] = [];
  const silent = (): void => undefined;
  const log = { debug: silent, info: silent, warn: silent, error: silent };
  const inside: Exec = (file, args, options) => exec("ip", ["netns", "exec", NODE, file, ...args], options);
  const at = (space: string, ...args: string[]) => exec("ip", ["-n", space, ...args]);
  let supervisor = "";
  let pins: LinePins;
  let dialer: BridgeDialer;

  const serve = async (space: string, name: string): Promise<void> => {
    const args = ["netns", "exec", space, nodeBinary, "-e", SERVICE, name];
    const child = startChild("ip", args, { env: { ...MINIMAL_ENV } });
    services.push(child);
    await untilPrinted(child, "listening");
  };

  beforeAll(async () => {
    supervisor = await supervisorBinary({
      sourceFolder: join(root, "packages/supervisor"),
      cacheFolder: folder,
      exec,
    });
    for (const space of [NODE, ...Object.values(guests)]) {
      await exec("ip", ["netns", "add", space]);
      await at(space, "link", "set", "lo", "up");
    }
    await at(NODE, "link", "add", "vmbr0", "type", "bridge");
    await at(NODE, "address", "add", "10.99.7.1/24", "dev", "vmbr0");
    await at(NODE, "link", "set", "vmbr0", "up");
    for (const [name, space] of Object.entries(guests)) {
      await at(NODE, "link", "add", `tap${name}`, "type", "veth", "peer", "name", "eth0", "netns", space);
      await at(NODE, "link", "set", `tap${name}`, "master", "vmbr0", "up");
      const mac = MACS[name as keyof typeof MACS];
      await at(space, "link", "set", "eth0", "address", mac, "up");
      await at(space, "address", "add", `${ADDRESSES[name as keyof typeof ADDRESSES]}/24`, "dev", "eth0");
    }
    // Behind b there is a network that the node knows a way to.
    await at(guests.b, "address", "add", `${ROUTED}/32`, "dev", "lo");
    await at(NODE, "route", "add", "10.99.8.0/24", "via", ADDRESSES.b);
    for (const [name, space] of Object.entries({ ...guests, node: NODE })) await serve(space, name);
    let drawn = 0;
    const random = (bytes: number) => Uint8Array.from({ length: bytes }, () => (drawn++ % 255) + 1);
    pins = new LinePins({ exec: inside, table: "gpve_test_lines", random });
    dialer = new BridgeDialer({
      node: "n1",
      exec: inside,
      log,
      clock: systemClock,
      pins,
      // The supervisor's binary in the node's namespace.
      open: (place, signal) => openLine(["ip", "netns", "exec", NODE, supervisor], place, signal),
      leasedAddress: () => undefined,
    });
  });

  afterAll(async () => {
    for (const child of services) child.signal("SIGKILL");
    await Promise.all(services.map(({ exited }) => exited));
    for (const space of [NODE, ...Object.values(guests)])
      await exec("ip", ["netns", "del", space]).catch((err: unknown) => ignore(err, "it was not made"));
    rmSync(folder, { recursive: true, force: true });
  });

  const signal = new AbortController().signal;
  const dial = (address?: string, more: { port?: number; mac?: string; tap?: string } = {}) =>
    dialer.dial(
      {
        label: "VM 100",
        cards: [{ key: "net0", mac: more.mac ?? MACS.a, tap: more.tap ?? "tapa" }],
        port: more.port ?? PORT,
        ...given({ address }),
      },
      signal,
    );
  const said = async (line: Awaited<ReturnType<typeof dial>>, words: string): Promise<string> => {
    await line.socket.write(Buffer.from(words));
    let heard = "";
    for await (const chunk of line.socket.output) {
      heard += Buffer.from(chunk).toString();
      if (heard.endsWith(words)) break;
    }
    line.socket.close();
    await line.socket.closed;
    return heard;
  };

  test("reaches it by its address, and by the one that the node saw", async () => {
    const first = await dial(ADDRESSES.a);
    expect(await pins.isWhole()).toBe(true);
    expect(await said(first, "hello")).toBe("a:hello");
    const second = await dial();
    expect(second.address).toBe(ADDRESSES.a);
    expect(await said(second, "again")).toBe("a:again");
    // Nothing stays in the kernel.
    await expect
      .poll(async () => (await inside("nft", ["list", "tables"])).stdout, { timeout: 30_000 })
      .not.toContain("lines");
  });

  test("carries more than fits anywhere at once, both ways", async () => {
    const line = await dial(ADDRESSES.a);
    const sent = Buffer.alloc(8 * 1024 * 1024, 7);
    let heard = 0;
    const reading = (async () => {
      for await (const chunk of line.socket.output) {
        heard += chunk.length;
        if (heard >= sent.length + 2) break;
      }
    })();
    for (let start = 0; start < sent.length; start += 65_536)
      await line.socket.write(sent.subarray(start, start + 65_536));
    await reading;
    expect(heard).toBe(sent.length + 2);
    line.socket.close();
    await line.socket.closed;
  });

  test.each([
    ["the node itself", "10.99.7.1", "is node n1 itself"],
    ["loopback", "127.0.0.1", "loopback"],
    ["link-local", "169.254.169.254", "link-local"],
    ["multicast", "224.0.0.1", "multicast"],
    ["everybody", "10.99.7.255", "in no network"],
    ["what is only routed to", ROUTED, "in no network"],
    ["another guest", ADDRESSES.b, "which is no card of VM 100"],
  ])("is refused to %s", async (_name, address, words) => {
    if (address === ADDRESSES.b) await inside("ping", ["-c", "1", address]).catch(silent);
    await expect(dial(address)).rejects.toThrow(words);
  });

  test("is refused to a port where nobody listens, and to nobody", async () => {
    await expect(dial(ADDRESSES.a, { port: 9 })).rejects.toThrow("Connection refused");
    await expect(dial("10.99.7.77")).rejects.toMatchObject({ code: "node.unavailable" });
  });

  test("does not lead elsewhere, whatever the node is made to believe", async () => {
    // The owner of a writes b's MAC address into its own configuration: only the tap tells them apart.
    await inside("ping", ["-c", "1", ADDRESSES.b]).catch(silent);
    await expect(dial(ADDRESSES.b, { mac: MACS.b })).rejects.toMatchObject({ code: "node.unavailable" });
    // And the other way round: it says of a card that is not on a tap of its own that it is.
    await expect(dial(ADDRESSES.b, { mac: MACS.a, tap: "tapc" })).rejects.toThrow("on a bridge of node");
    // What is refused by the pin never left: b was not even knocked at.
    const before = await segmentsOf(guests.b);
    const pin = await pins.add("vmbr0", ["tapa"]);
    const place = { device: "vmbr0", mark: pin.mark, address: ADDRESSES.b, port: PORT };
    const program = ["ip", "netns", "exec", NODE, supervisor] as const;
    await expect(openLine(program, place, signal)).rejects.toThrow("nothing answered");
    await pins.remove(pin);
    expect(await segmentsOf(guests.b)).toBe(before);
  });

  /** How many of TCP it was ever sent. */
  const segmentsOf = async (space: string): Promise<string> => {
    const { stdout } = await exec("ip", ["netns", "exec", space, "cat", "/proc/net/snmp"]);
    return /^Tcp:(?: -?\d+){9} (\d+)/m.exec(stdout)?.[1] ?? "";
  };
});
