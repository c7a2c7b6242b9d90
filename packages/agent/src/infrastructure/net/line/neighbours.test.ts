import { expect, test } from "vitest";
import { neighboursOn, parseLearned, portsOf } from "./neighbours.ts";

const NEIGHBOURS = JSON.stringify([
  { dst: "10.9.0.3", lladdr: "9E:29:e4:8a:43:ef", state: ["REACHABLE"] },
  { dst: "10.9.0.4", lladdr: "9e:29:e4:8a:43:f0", state: ["STALE"] },
  { dst: "10.9.0.77", state: ["INCOMPLETE"] },
  { dst: "10.9.0.78", lladdr: "9e:29:e4:8a:43:f1", state: ["FAILED"] },
]);
const LEARNED = JSON.stringify([
  { mac: "33:33:00:00:00:01", ifname: "br0", flags: ["self"], state: "permanent" },
  { mac: "76:37:03:ee:e6:ac", ifname: "tap100i0", flags: [], master: "br0", state: "" },
  { mac: "76:37:03:ee:e6:ac", ifname: "tap100i0", vlan: 7, flags: [], master: "br0", state: "stale" },
  { mac: "ae:5d:8b:36:09:b1", ifname: "tap100i0", flags: [], master: "br0", state: "permanent" },
]);

test("those who answered are known, with how long ago that was", async () => {
  const asked: string[] = [];
  const exec = (file: string, args: readonly string[]) => {
    asked.push([file, ...args].join(" "));
    return Promise.resolve({ stdout: file === "ip" ? NEIGHBOURS : LEARNED, stderr: "", code: 0 });
  };
  expect(await neighboursOn("br0", exec as never)).toEqual([
    { address: "10.9.0.3", mac: "9e:29:e4:8a:43:ef", isFresh: true },
    { address: "10.9.0.4", mac: "9e:29:e4:8a:43:f0", isFresh: false },
  ]);
  expect(await portsOf("76:37:03:ee:e6:ac", "br0", exec as never)).toEqual(["tap100i0"]);
  expect(asked).toEqual(["ip -j neigh show dev br0", "bridge -j fdb show br br0"]);
});

test("what was not learned from somebody who sent is nobody's port", () => {
  expect(parseLearned(LEARNED, "ae:5d:8b:36:09:b1")).toEqual([]);
  expect(parseLearned(LEARNED, "33:33:00:00:00:01")).toEqual([]);
  expect(parseLearned("", "33:33:00:00:00:01")).toEqual([]);
});
