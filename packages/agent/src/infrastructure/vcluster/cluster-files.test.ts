import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ClusterFiles } from "./cluster-files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-clusters-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const named = (name: string): KeptCluster => ({ name, phase: "Running" }) as KeptCluster;

test("lists clusters by name, as they are now, and whoever starts later too", () => {
  const files = new ClusterFiles(folder);
  expect(files.list()).toEqual([]);
  for (const name of ["b", "a"]) files.save(named(name));
  expect(files.list()).toEqual([named("a"), named("b")]);
  files.save({ ...named("b"), phase: "Stopped" });
  expect(files.list()).toEqual([named("a"), { ...named("b"), phase: "Stopped" }]);
  files.remove("a");
  expect(files.list().map(({ name }) => name)).toEqual(["b"]);
  expect(new ClusterFiles(folder).list()).toEqual(files.list());
});

test("is asked of a thousand all the time, and puts them in order once", () => {
  const files = new ClusterFiles(folder);
  for (let index = 0; index < 1_000; index++) files.save(named(`c${index}`));
  expect(files.list()).toBe(files.list());
});
