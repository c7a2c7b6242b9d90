// Nobody outside a kind's own folders asks what type a guest is: the tables of kinds say what is done with it.
import { expect, test } from "vitest";
import { isTest, read, sources } from "./source-tree.ts";

/** A comparison with a type, or a type written into a record or a request. */
const ASKS = /(?:\btype\b"?\]?\s*(?:===|!==|:)\s*|\bcase\s+)"(?:qemu|lxc)"/;
/** PVE's own words for parameters and paths. */
const WORDS = /^packages\/(?:contracts\/src\/pve|cli\/src\/pve-commands\/tables)\//;

const askers = (files: readonly string[]): string[] =>
  files.filter((path) =>
    read(path)
      .split("\n")
      .some((line) => ASKS.test(line) && !/^\s*(?:\/\/|\*|\/\*)/.test(line)),
  );

test("kinds of guests are asked for in the tables alone", () => {
  const files = sources().filter(
    (path) => path.startsWith("packages/") && !isTest(path) && !WORDS.test(path),
  );
  expect(askers(files)).toEqual([]);
});

test("the rule sees what it is for", () => {
  expect(
    ['guest.type === "qemu"', 'row["type"] !== "lxc"', 'type: "qemu"', 'case "lxc":'].every((line) =>
      ASKS.test(line),
    ),
  ).toBe(true);
  expect(ASKS.test('guests.find(node, "lxc", vmid)')).toBe(false);
});
