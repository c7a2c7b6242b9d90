import { expect, test } from "vitest";
import type { StorageDefinition } from "../../storage/definition.ts";
import { sharedNodes } from "./shared-nodes.ts";

const storage = (name: string, options: Readonly<Record<string, unknown>> = {}, type = "dir") =>
  ({ storage: name, type, options }) as unknown as StorageDefinition;
const definitions = [
  storage("local"),
  storage("everywhere", { shared: true }),
  storage("mounted", {}, "nfs"),
  storage("two", { shared: true, nodes: "n1,n2" }),
  storage("off", { shared: true, disable: true }),
];
const place = { at: "n2", nodes: ["n3", "n1", "n2"] };
const on = (...storages: readonly string[]) =>
  sharedNodes(
    Object.fromEntries(storages.map((name, at) => [`scsi${at}`, `${name}:100/vm-100-disk-${at}.qcow2`])),
    definitions,
    place,
  );

test("all nodes have a VM's disks on storages that all share, or no disks at all", () => {
  expect(on("everywhere", "mounted")).toEqual(["n1", "n2", "n3"]);
  expect(on()).toEqual(["n1", "n2", "n3"]);
  expect(sharedNodes({ ide2: "none,media=cdrom" }, definitions, place)).toEqual(["n1", "n2", "n3"]);
});

test("one local disk keeps it where it is; a storage of two nodes leaves two", () => {
  expect(on("everywhere", "local")).toEqual(["n2"]);
  expect(on("everywhere", "two")).toEqual(["n1", "n2"]);
});

test("a storage that is off, or unknown, is nowhere", () => {
  expect(on("off")).toEqual([]);
  expect(on("gone")).toEqual([]);
});
