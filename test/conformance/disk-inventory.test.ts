// Disks as PVE's developers keep them for their own inventory: what the kernel, udev, smartctl and the owners of disks
// said, and the list expected. Two things are not in the files and are given here: which disk has a holder (the one
// that is expected to be Device Mapper's), and that figures are compared as texts, as Perl compares them.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { DiskInventory, type DiskHost } from "@gpve/agent/infrastructure/disks/disk-inventory.ts";
import { toWire } from "@gpve/domain/schema/to-wire.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "storage/disk_tests");
const present = existsSync(suite);
if (!present) {
  console.warn(`SKIPPED disk conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`);
}

type Rows = Readonly<Record<string, Readonly<Record<string, unknown>>>>;
const cases = present ? readdirSync(suite) : [];
const smartCases = cases.flatMap((name) =>
  readdirSync(join(suite, name))
    .filter((file) => file.endsWith("_smart_expected.json"))
    .map((file) => [name, file.replace("_smart_expected.json", "")] as const),
);

describe.skipIf(!present)("PVE's own disks", () => {
  let passed = 0;
  afterAll(() =>
    console.log(
      `disk_tests: ${passed} of ${cases.length + smartCases.length} lists and disks read as they must`,
    ),
  );

  test.each(cases)("list of %s", async (name) => {
    const found = await new DiskInventory(hostOf(name)).list({ smart: true, partitions: false });
    expect(asTexts(Object.fromEntries(found))).toEqual(asTexts(expectedList(name)));
    passed++;
  });

  test.each(smartCases)("health of %s/%s", async (name, disk) => {
    const found = await new DiskInventory(hostOf(name)).smart(`/dev/${disk}`, false);
    expect(asTexts(found)).toEqual(asTexts(json(join(suite, name, `${disk}_smart_expected.json`))));
    passed++;
  });
});

const text = (path: string): string => (existsSync(path) ? readFileSync(path, "utf8") : "");
const json = (path: string): unknown => JSON.parse(readFileSync(path, "utf8"));
const expectedList = (name: string): Rows => json(join(suite, name, "disklist_expected.json")) as Rows;

function hostOf(name: string): DiskHost {
  const folder = join(suite, name);
  const held = Object.keys(expectedList(name)).filter(
    (disk) => expectedList(name)[disk]?.["used"] === "Device Mapper",
  );
  return {
    blockDevices: () => text(join(folder, "disklist")).trim().split("\n"),
    sysLine: (path) => text(join(folder, path)).split("\n")[0]?.trim(),
    sysNames: (path) => {
      if (path.endsWith("/holders")) return held.some((disk) => path.startsWith(disk)) ? ["dm-0"] : [];
      return existsSync(join(folder, path)) ? readdirSync(join(folder, path)) : [];
    },
    isRemote: () => false,
    udev: async (disk) => text(join(folder, `${disk}_udevadm`)),
    owners: async () => ({
      lsblk: text(join(folder, "lsblk")),
      pvs: text(join(folder, "pvs")),
      lvs: text(join(folder, "lvs")),
      zpool: text(join(folder, "zpool")),
      mounts: text(join(folder, "mounts")),
    }),
    smart: async (devpath, healthOnly) => {
      const file = join(folder, devpath.replace("/dev/", ""));
      const output = text(`${file}_${healthOnly ? "health" : "smart"}`);
      if (output === "") throw new Error("smartctl cannot ask this disk");
      return output;
    },
  };
}

/** As on the wire, with every figure as text. */
function asTexts(value: unknown): unknown {
  return JSON.parse(JSON.stringify(toWire({}, value)), (_key, each: unknown) =>
    typeof each === "number" ? String(each) : each,
  );
}
