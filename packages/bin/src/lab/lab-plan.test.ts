import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDataDir, type DataDir } from "@gpve/kit/data-dir.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { etcdUrls, isLab, labNode, labOf, openLab, parseNodeCount, readLab, requireLab } from "./lab-plan.ts";

let folder: string;
let data: DataDir;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-plan-"));
  data = openDataDir(folder);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const subnet = (): Promise<string> => Promise.resolve("10.37.4.0/24");

test("a lab is written down once and found again", async () => {
  expect(isLab(data)).toBe(false);
  expect(() => requireLab(folder)).toThrow(/up --nodes 3/);
  const made = await openLab(data, 3, subnet);
  expect(isLab(data)).toBe(true);
  expect(readLab(data)).toEqual({ ...made, data: expect.anything() as unknown });
  const again = await openLab(data, undefined, () => Promise.reject(new Error("not asked twice")));
  expect(again.nodes.map(({ address }) => address)).toEqual(["10.37.4.11", "10.37.4.12", "10.37.4.13"]);
  await expect(openLab(data, 5, subnet)).rejects.toThrow(/cluster of 3 nodes, not 5/);
  expect(() => labNode(made, "n9")).toThrow(/no node n9: this cluster has n1, n2, n3/);
});

test("a directory of a single node is refused", async () => {
  writeFileSync(data.file("server", "store.db"), "");
  await expect(openLab(data, 3, subnet)).rejects.toThrow(/holds a single node/);
});

test("names fit the kernel's interfaces, and etcd has three members however many nodes there are", () => {
  const lab = labOf(data, 9, "10.37.4.0/24");
  const names = lab.nodes.flatMap(({ nodePort, guestPort }) => [nodePort, guestPort]);
  for (const name of [...names, lab.nodeBridge, lab.guestBridge]) expect(name.length).toBeLessThanOrEqual(15);
  expect(new Set(names).size).toBe(18);
  expect(etcdUrls(lab)).toHaveLength(3);
});

test("the number of nodes is checked", () => {
  expect(parseNodeCount(undefined)).toBeUndefined();
  expect(parseNodeCount("3")).toBe(3);
  for (const text of ["2", "10", "three", "3.5", ""]) expect(() => parseNodeCount(text)).toThrow(/--nodes/);
});
