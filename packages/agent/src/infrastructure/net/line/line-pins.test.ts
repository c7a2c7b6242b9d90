import { beforeEach, expect, test } from "vitest";
import type { Exec } from "@gpve/kit/exec.ts";
import { LinePins, pinCommands } from "./line-pins.ts";

let ran: string[];
let failure: Error | undefined;
/** What nft lists. */
let listed: (args: readonly string[]) => string;
let drawn: number[];

const exec = ((file: string, args: readonly string[]) => {
  if (failure !== undefined) return Promise.reject(failure);
  ran.push([file, ...args].join(" "));
  return Promise.resolve({ stdout: listed(args), stderr: "", code: 0 });
}) as unknown as Exec;
const pins = () =>
  new LinePins({ exec, table: "gpve_x_lines", random: () => Uint8Array.from(drawn.splice(0, 2)) });

beforeEach(() => {
  [ran, failure, drawn] = [[], undefined, [0, 1, 3, 0, 0x67, 0x01, 0x67, 0x01, 0x67, 0x02]];
  listed = () => "";
});

test("a line leaves by its device, and the bridge by the guest's taps", () => {
  const commands = pinCommands("t", [{ mark: 0x67000001, device: "vmbr0", taps: ["tap1i0", "tap1i1"] }]);
  expect(commands).toContain('add element bridge t ways { 0x67000001 . "tap1i0" };');
  expect(commands).toContain('add element bridge t ways { 0x67000001 . "tap1i1" };');
  expect(commands).toContain('add element inet t ways { 0x67000001 . "vmbr0" };');
  for (const family of ["bridge", "inet"])
    expect(commands).toContain(
      `add rule ${family} t out meta mark @lines meta mark . oifname != @ways counter drop;`,
    );
});

test("marks are nobody else's, all pins are written at once, and the last one takes the tables along", async () => {
  const kept = pins();
  const first = await kept.add("vmbr0", ["tap1i0"]);
  const second = await kept.add("vmbr0", ["tap2i0"]);
  expect([first.mark, second.mark]).toEqual([0x67000001, 0x67000002]);
  expect(ran.at(-1)).toContain('{ 0x67000001 . "tap1i0" }');
  expect(ran.at(-1)).toContain('{ 0x67000002 . "tap2i0" }');
  await kept.remove(first);
  expect(ran.at(-1)).not.toContain("0x67000001");
  listed = () => "table bridge gpve_x_lines\ntable inet gpve_x_lines\ntable inet other\n";
  await kept.remove(second);
  await kept.remove(second);
  expect(ran.slice(-3)).toEqual([
    "nft list tables",
    "nft delete table bridge gpve_x_lines",
    "nft delete table inet gpve_x_lines",
  ]);
});

test("what the kernel refuses is not pinned", async () => {
  const kept = pins();
  failure = new Error("no bridge family");
  await expect(kept.add("vmbr0", ["tap1i0"])).rejects.toThrow("no bridge family");
  failure = undefined;
  expect(await kept.isWhole()).toBe(true);
  await kept.sweep();
  expect(ran).toEqual(["nft list tables"]);
});

test("it is known whether the kernel still has them", async () => {
  const kept = pins();
  await kept.add("vmbr0", ["tap1i0"]);
  await kept.sweep();
  listed = () => "chain out { elements = { 0x67000001 }";
  expect(await kept.isWhole()).toBe(true);
  listed = () => "chain out { elements = { 0x67000002 }";
  expect(await kept.isWhole()).toBe(false);
  listed = () => "";
  expect(await kept.isWhole()).toBe(false);
  failure = new Error("no such table");
  expect(await kept.isWhole()).toBe(false);
});
