// OVF descriptions that PVE's developers keep for their own reader. The suite has no results beside them, so what is
// expected is counted in the text itself: a disk for each item that names one, a card for each card.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parseOvf } from "@gpve/domain/storage/ovf.ts";
import { vmKeySchema } from "@gpve/domain/vm/keys.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "storage/ovf_manifests");
const present = existsSync(suite);
if (!present) {
  console.warn(`SKIPPED OVF conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`);
}

const manifests = present ? readdirSync(suite).filter((name) => name.endsWith(".ovf")) : [];

describe.skipIf(!present)("PVE's own OVF descriptions", () => {
  let passed = 0;
  afterAll(() =>
    console.log(`ovf_manifests: ${passed} of ${manifests.length} descriptions read as they must`),
  );

  test.each(manifests)("%s", (name) => {
    const text = readFileSync(join(suite, name), "utf8");
    if (text.includes("<!ENTITY")) {
      expect(() => parseOvf(text)).toThrow("no XML this software reads");
      passed++;
      return;
    }
    const files = [...text.matchAll(/<(?:ovf:)?File [^>]*href="([^"]*)"/g)].map(([, href]) => href ?? "");
    if (files.some((file) => file.includes("/"))) {
      expect(() => parseOvf(text)).toThrow("is invalid");
      passed++;
      return;
    }
    const items = text.match(/<Item[\s>][\s\S]*?<\/Item>/g) ?? [];
    const ofType = (type: number) =>
      items.filter((item) => new RegExp(`ResourceType[^>]*>${type}<`).test(item));
    const { config, disks, nets } = parseOvf(text);
    expect(disks.map(({ file }) => file)).toEqual(files);
    expect(disks).toHaveLength(ofType(17).length);
    expect(new Set(disks.map(({ address }) => address)).size).toBe(disks.length);
    expect(Object.keys(nets)).toHaveLength(ofType(10).length);
    const quantity = (type: number) => Number(/VirtualQuantity[^>]*>(\d+)</.exec(ofType(type)[0] ?? "")?.[1]);
    expect(config).toMatchObject({
      cores: quantity(3),
      memory: quantity(4),
      boot: `order=${disks.map(({ address }) => address).join(";")}`,
    });
    expect(config["name"]).toMatch(/^[a-zA-Z0-9][a-zA-Z0-9.-]*$/);
    expect(vmKeySchema("ostype")?.enum).toContain(config["ostype"]);
    expect(config["bios"] === "ovmf").toBe(/key="firmware"[^>]*value="efi"/.test(text));
    passed++;
  });
});
