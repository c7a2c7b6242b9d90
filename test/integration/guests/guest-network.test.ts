import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listInterfaces } from "@gpve/agent/infrastructure/net/interfaces.ts";
import { NatBridge, type NatBridgeOptions } from "@gpve/agent/infrastructure/net/nat/nat-bridge.ts";
import { limitRate, sweepLimits } from "@gpve/agent/infrastructure/net/filter/rate-limit.ts";
import { unplugDevice } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { spawnDetached } from "@gpve/kit/spawn.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests } from "./guest-world.ts";

const missing =
  missingForGuests() ??
  (existsSync("/usr/sbin/dnsmasq") && existsSync("/usr/sbin/nft")
    ? undefined
    : "no dnsmasq or nft: apt-get install dnsmasq-base nftables");
if (missing !== undefined) console.warn(`SKIPPED guest network: ${missing}`);

const tag = String(process.pid).slice(-5);

describe.skipIf(missing !== undefined)("a guest's network card", () => {
  const bridge = `gt${tag}br`;
  let world: GuestWorld;

  beforeAll(async () => {
    world = await guestWorld();
    await exec("ip", ["link", "add", "name", bridge, "type", "bridge"]);
    await exec("ip", ["link", "set", "dev", bridge, "up"]);
  });

  afterAll(async () => {
    await world?.clean();
    await exec("ip", ["link", "delete", "dev", bridge], { okCodes: [0, 1] });
  });

  const find = async (name: string): Promise<{ master?: string } | undefined> =>
    (await listInterfaces()).find((found) => found.name === name);

  it("is there at the start, is limited, comes and goes while it runs, and ends with the guest", async () => {
    const first = `gt${tag}a`;
    const second = `gt${tag}b`;
    const guest = await world.guests().startQemu(
      bootable("400", world.disk("400.raw", "halt"), {
        taps: [{ name: first, bridge, firstFd: 32 }],
        args: ["-netdev", "tap,id=net0,fd=32", "-device", "virtio-net-pci,netdev=net0,id=nic0"],
      }),
    );
    expect(await find(first)).toMatchObject({ master: bridge, up: true });
    const table = `gpvetest_${tag}`;
    const limit = await limitRate(first, 10, { exec, table });
    expect(limit.toGuest === "none" && limit.fromGuest === "none").toBe(false);
    if (limit.fromGuest === "nft") expect(await sweepLimits({ exec, table })).toBe(0);
    await guest.qmp.execute("set_link", { name: "nic0", up: false });
    await guest.plugTap("net1", { name: second, bridge, vhost: false });
    expect(await find(second)).toMatchObject({ master: bridge });
    await guest.qmp.execute("device_add", { driver: "virtio-net-pci", netdev: "net1", id: "nic1" });
    await expect(guest.plugTap("net1", { name: `gt${tag}c`, bridge, vhost: false })).rejects.toMatchObject({
      code: "qmp.failed",
    });
    await expect(
      guest.plugTap("net9", { name: `gt${tag}d`, bridge: "no-such-bridge", vhost: false }),
    ).rejects.toThrow("cannot add");
    // The boot sector answers no ACPI request; a reset completes what is pending.
    const gone = unplugDevice(guest.qmp, "nic1");
    await guest.qmp.execute("system_reset");
    await gone;
    await guest.qmp.execute("netdev_del", { id: "net1" });
    expect(await find(second)).toBeUndefined();
    await guest.stop();
    expect(await find(first)).toBeUndefined();
  });
});

describe.skipIf(missing !== undefined)("the NAT bridge of a host", () => {
  const host = `gpve-test-${tag}`;
  const client = `gpve-testc-${tag}`;
  const inHost: Exec = (file, args, options) => exec("ip", ["netns", "exec", host, file, ...args], options);
  let folder: string;
  let options: NatBridgeOptions;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-nat-"));
    for (const name of [host, client]) await exec("ip", ["netns", "add", name]);
    options = {
      instanceId: "a1b2c3",
      runFolder: folder,
      exec: inHost,
      enableForwarding: () => undefined,
      spawn: (file, args, more) => spawnDetached("ip", ["netns", "exec", host, file, ...args], more),
    };
  });

  afterAll(async () => {
    await new NatBridge(options).teardown();
    for (const name of [host, client]) await exec("ip", ["netns", "delete", name]);
    rmSync(folder, { recursive: true, force: true });
  });

  it("gives addresses, hides guests behind the host's, is found again and taken away", async () => {
    const network = await new NatBridge(options).ensure();
    if (network === undefined) throw new Error("no network was made");
    expect(await new NatBridge(options).ensure()).toEqual(network);
    const { stdout } = await inHost("nft", ["list", "table", "ip", "gpve_a1b2c3"]);
    expect(stdout).toContain(`ip saddr ${network.subnet} oifname != "vmbr0" masquerade`);

    await inHost("ip", ["link", "add", "port0", "type", "veth", "peer", "name", "eth0", "netns", client]);
    await inHost("ip", ["link", "set", "dev", "port0", "master", network.bridge, "up"]);
    const inClient: Exec = (file, args, more) => exec("ip", ["netns", "exec", client, file, ...args], more);
    await inClient("ip", ["link", "set", "dev", "eth0", "up"]);
    await inClient("ip", ["address", "add", "169.254.7.7/16", "dev", "eth0"]);
    await inClient("ip", ["route", "add", "255.255.255.255/32", "dev", "eth0"]);
    const offer = await inClient(process.execPath, [
      "--disable-warning=ExperimentalWarning",
      join(import.meta.dirname, "dhcp-discover-child.ts"),
    ]);
    expect(offer.stdout).toMatch(new RegExp(`offered ${network.gateway.replace(/\.1$/, "\\.\\d+")}`));

    await new NatBridge(options).teardown();
    expect((await listInterfaces(inHost)).map(({ name }) => name)).not.toContain("vmbr0");
    expect((await inHost("nft", ["list", "tables"])).stdout).not.toContain("gpve_a1b2c3");
  });
});
