import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { MacFilter, macFilterCommands } from "./mac-filter.ts";
import { VmBridges } from "../vm-bridges.ts";

/** An nft that keeps the one table as text. */
function kernel(): { exec: Exec; text: () => string; flush: () => void; broken: (yes: boolean) => void } {
  let text = "";
  let isBroken = false;
  const exec: Exec = async (_file, args) => {
    const line = args.join(" ");
    if (isBroken) throw new AppError("internal.error", "nft: Operation not supported");
    if (line === "list tables") return answer(text === "" ? "" : "table bridge t\n");
    if (line === "list table bridge t") {
      if (text === "") throw new AppError("internal.error", "no such table");
      return answer(text);
    }
    text = line === "delete table bridge t" ? "" : line.replaceAll("add chain bridge t ", "chain ");
    return answer("");
  };
  const answer = (stdout: string) => ({ code: 0, stdout, stderr: "" });
  return { exec, text: () => text, flush: () => (text = ""), broken: (yes) => (isBroken = yes) };
}

describe("the MAC addresses that guests may use", () => {
  const one = { vmid: 100, tap: "tap100i0", mac: "BC:24:11:00:00:01" };
  const two = { vmid: 101, tap: "tap101i0", mac: "BC:24:11:00:00:02" };

  it("are one table for all cards, and none without any", async () => {
    const nft = kernel();
    const filter = new MacFilter({ exec: nft.exec, table: "t" });
    await Promise.all([filter.add(one), filter.add(two)]);
    expect(nft.text()).toContain('{ "tap100i0" . bc:24:11:00:00:01 }');
    expect(nft.text()).toContain('{ "tap101i0" . bc:24:11:00:00:02 }');
    await filter.remove(({ vmid }) => vmid === 100);
    expect(nft.text()).not.toContain("tap100i0");
    await filter.remove(({ vmid }) => vmid === 101);
    expect(nft.text()).toBe("");
  });

  it("are made again where somebody took them away", async () => {
    const nft = kernel();
    const filter = new MacFilter({ exec: nft.exec, table: "t" });
    expect(await filter.isWhole()).toBe(true);
    await filter.add(one);
    expect(await filter.isWhole()).toBe(true);
    nft.flush();
    expect(await filter.isWhole()).toBe(false);
    await filter.ensure();
    expect(await filter.isWhole()).toBe(true);
  });

  it("are looked at on both ways into a bridge, with arguments that stay short", () => {
    const many = Array.from({ length: 2_000 }, (_, vmid) => ({ ...one, vmid, tap: `tap${vmid}i0` }));
    const commands = macFilterCommands("t", many);
    expect(commands.filter((line) => /hook (?:prerouting|input)/.test(line))).toHaveLength(2);
    expect(Math.max(...commands.map(({ length }) => length))).toBeLessThan(200);
  });

  it("are all there again after nft has failed, those of guests that ran before too", async () => {
    const nft = kernel();
    const filter = new MacFilter({ exec: nft.exec, table: "t" });
    await filter.add(one);
    nft.broken(true);
    // Neither a card that is set again nor one that cannot be added takes another's filter away.
    await expect(filter.add(one)).rejects.toThrow("Operation not supported");
    await expect(filter.add(two)).rejects.toThrow("Operation not supported");
    const three = { vmid: 102, tap: "tap102i0", mac: "BC:24:11:00:00:03" };
    await expect(filter.adopt([two, three])).rejects.toThrow("Operation not supported");
    expect(filter.has(two.tap)).toBe(false);
    nft.broken(false);
    nft.flush();
    expect(await filter.isWhole()).toBe(false);
    await filter.add({ vmid: 103, tap: "tap103i0", mac: "BC:24:11:00:00:04" });
    for (const tap of ["tap100i0", "tap101i0", "tap102i0", "tap103i0"]) {
      expect(nft.text()).toContain(`"${tap}" . bc:24:11`);
      expect(filter.has(tap)).toBe(true);
    }
    expect(await filter.isWhole()).toBe(true);
  });

  it("stay as they were when a change of them fails, and go when a removal failed once", async () => {
    const nft = kernel();
    const filter = new MacFilter({ exec: nft.exec, table: "t" });
    await filter.add(one);
    nft.broken(true);
    await expect(filter.add({ ...one, mac: two.mac })).rejects.toThrow("Operation not supported");
    await expect(filter.remove(({ vmid }) => vmid === 999)).resolves.toBeUndefined();
    nft.broken(false);
    await filter.add(two);
    expect(nft.text()).toContain('{ "tap100i0" . bc:24:11:00:00:01 }');
    nft.broken(true);
    await expect(filter.remove(() => true)).rejects.toThrow("Operation not supported");
    nft.broken(false);
    expect(await filter.isWhole()).toBe(false);
    await filter.ensure();
    expect(nft.text()).toBe("");
    expect(await filter.isWhole()).toBe(true);
  });

  it("are refused, and the card with them, where the kernel cannot filter", async () => {
    const nft = kernel();
    nft.broken(true);
    const network = new VmBridges({ instanceId: "abcdef", exec: nft.exec, exists: () => true });
    const net = { model: "virtio", macaddr: one.mac, bridge: "vmbr0", firewall: true } as const;
    await expect(network.filter(100, one.tap, net)).rejects.toThrow(
      /^firewall=1 cannot be kept.*Operation not supported.*or set firewall=0$/,
    );
    expect(network.macFilter.has(one.tap)).toBe(false);
    expect(await network.filter(100, one.tap, { ...net, firewall: false })).toBeUndefined();
    nft.broken(false);
    const { macaddr: _none, ...without } = net;
    await expect(network.filter(100, one.tap, without)).rejects.toThrow("no MAC address");
    expect(await network.filter(100, one.tap, net)).toContain("its own MAC address");
  });
});
