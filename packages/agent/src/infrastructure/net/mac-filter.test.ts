import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { MacFilter, macFilterCommands } from "./mac-filter.ts";
import { VmBridges } from "./vm-bridges.ts";

/** An nft that keeps the one table as text. */
function kernel(): { exec: Exec; text: () => string; flush: () => void; broken: (yes: boolean) => void } {
  let text = "";
  let isBroken = false;
  const exec: Exec = async (_file, args) => {
    const line = args.join(" ");
    if (isBroken) throw new AppError("internal.error", "nft: Operation not supported");
    if (line === "list tables bridge") return answer(text === "" ? "" : "table bridge t\n");
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

  it("are told to be any where the kernel cannot filter", async () => {
    const nft = kernel();
    nft.broken(true);
    const network = new VmBridges({ instanceId: "abcdef", exec: nft.exec, exists: () => true });
    const net = { model: "virtio", macaddr: one.mac, bridge: "vmbr0", firewall: true } as const;
    const { missing, remark } = await network.filter(100, one.tap, net);
    expect(remark).toBeUndefined();
    expect(missing).toMatch(/^firewall=1 is not kept.*Operation not supported$/);
    expect(network.macFilter.has(one.tap)).toBe(false);
    expect((await network.filter(100, one.tap, { ...net, firewall: false })).missing).toBeUndefined();
    nft.broken(false);
    const { macaddr: _none, ...without } = net;
    expect((await network.filter(100, one.tap, without)).missing).toContain("no MAC address");
  });
});
