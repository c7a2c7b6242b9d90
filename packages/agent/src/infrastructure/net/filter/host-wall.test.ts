import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { HostWall, hostWallCommands } from "./host-wall.ts";

/** An nft that keeps the one table as text. */
function kernel() {
  const state = { text: "", broken: false };
  const answer = (stdout: string) => ({ code: 0, stdout, stderr: "" });
  const exec: Exec = async (_file, args) => {
    const line = args.join(" ");
    if (state.broken) throw new AppError("internal.error", "nft: Operation not supported");
    if (line === "list tables") return answer(state.text === "" ? "" : "table inet t\n");
    if (line.startsWith("list")) return answer(state.text);
    state.text = line.startsWith("delete table") ? "" : line.replaceAll("add chain inet t ", "chain ");
    return answer("");
  };
  return { state, exec };
}

describe("the wall between user-mode networks and this machine", () => {
  const open = (nameServers: string[] = []) => {
    const nft = kernel();
    return {
      ...nft,
      wall: new HostWall({ exec: nft.exec, table: "t", nameServers: () => nameServers }),
    };
  };

  it("stands while there is such a network, and is made again where somebody took it away", async () => {
    const { wall, state } = open();
    await Promise.all([wall.add("100-net0"), wall.add("101-net0")]);
    await wall.remove("100-net0");
    expect(await wall.isWhole()).toBe(true);
    state.text = "";
    expect(await wall.isWhole()).toBe(false);
    await wall.ensure();
    expect(await wall.isWhole()).toBe(true);
    await wall.remove("101-net0");
    expect(state.text).toBe("");
    expect(await wall.isWhole()).toBe(true);
  });

  it("lets no network start that it cannot stand before", async () => {
    const { wall, state } = open();
    state.broken = true;
    await expect(wall.add("100-net0")).rejects.toThrow(
      /cannot keep a user-mode network from this machine.*Install nftables, or give the card a bridge$/,
    );
    state.broken = false;
    // It is not behind it: nothing is to be kept.
    expect(await wall.isWhole()).toBe(true);
  });

  it("is there again for networks that ran before, and gone when there are none", async () => {
    const { wall, state } = open();
    state.text = "left by an earlier agent";
    await wall.adopt([]);
    expect(state.text).toBe("");
    state.broken = true;
    await expect(wall.adopt(["100-net0"])).rejects.toThrow("Operation not supported");
    expect(await wall.isWhole()).toBe(false);
    state.broken = false;
    await wall.ensure();
    expect(await wall.isWhole()).toBe(true);
  });

  it("has a door to the host's name servers, wherever they are, and follows when they change", async () => {
    const servers = ["127.0.0.53", "::1", "fe80::1%eth0", "nonsense; drop"];
    const doors = hostWallCommands("t", servers).filter((line) => line.includes("dport 53 accept"));
    expect(doors).toEqual([
      "add rule inet t machine ip daddr 127.0.0.53 meta l4proto { tcp, udp } th dport 53 accept;",
      "add rule inet t machine ip6 daddr ::1 meta l4proto { tcp, udp } th dport 53 accept;",
    ]);
    const { wall } = open(servers);
    await wall.add("100-net0");
    expect(await wall.isWhole()).toBe(true);
    servers.push("192.0.2.1");
    expect(await wall.isWhole()).toBe(false);
  });
});
