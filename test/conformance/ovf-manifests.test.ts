// OVF descriptions that PVE's developers keep for their own reader. The suite has no results beside them, so what is
// expected is counted in the text itself: a disk for each item that names one, a card for each card.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parseOvf } from "@gpve/domain/storage/ovf.ts";
import { vmKeySchema } from "@gpve/domain/vm/config/keys.ts";

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
    const expected = readByHand(text);
    if (expected.disks.some((file) => /^\.{0,2}$|[^ a-zA-Z0-9.+=_-]/.test(file))) {
      expect(() => parseOvf(text)).toThrow("is invalid");
      passed++;
      return;
    }
    const { config, disks, nets } = parseOvf(text);
    const addresses = disks.map(({ address }) => address);
    expect(disks.map(({ file }) => file)).toEqual(expected.disks);
    expect(new Set(addresses).size).toBe(disks.length);
    expect(Object.keys(nets)).toHaveLength(expected.cards);
    expect(config["cores"]).toBe(expected.cores);
    expect(config["memory"]).toBe(expected.memory);
    expect(config["boot"]).toBe(disks.length === 0 ? undefined : `order=${addresses.join(";")}`);
    expect(config["bios"] === "ovmf").toBe(expected.isEfi);
    expect(String(config["name"] ?? "a")).toMatch(/^[a-zA-Z0-9][a-zA-Z0-9.-]*$/);
    expect(vmKeySchema("ostype")?.enum).toContain(config["ostype"]);
    passed++;
  });
});

/** The same facts, found in the text without reading its structure. */
function readByHand(text: string) {
  const items = text.match(/<(?:\w+:)?Item[\s>][\s\S]*?<\/(?:\w+:)?Item>/g) ?? [];
  const field = (item: string | undefined, name: string) =>
    new RegExp(`<(?:\\w+:)?${name}(?:\\s[^>]*)?>\\s*([^<]*?)\\s*<`).exec(item ?? "")?.[1];
  const ofType = (...types: string[]) =>
    items.filter((item) => types.includes(field(item, "ResourceType") ?? ""));
  const withAttribute = (element: string, name: string, value: string | undefined) =>
    (text.match(new RegExp(`<(?:\\w+:)?${element}\\s[^>]*>`, "g")) ?? []).find(
      (tag) => attributeOf(tag, name) === value,
    );
  const controllers = ofType("5", "6", "20").map((item) => field(item, "InstanceID"));
  const disks = ofType("17")
    .filter((item) => controllers.includes(field(item, "Parent")))
    .flatMap((item) => {
      const id = field(item, "HostResource")?.split("/").at(-1);
      const disk = withAttribute("Disk", "diskId", id);
      const file = disk === undefined ? undefined : withAttribute("File", "id", attributeOf(disk, "fileRef"));
      return file === undefined ? [] : [attributeOf(file, "href") ?? ""];
    });
  const quantity = (type: string) => {
    const amount = Number(field(ofType(type)[0], "VirtualQuantity"));
    return amount > 0 ? amount : undefined;
  };
  const unit = field(ofType("4")[0], "AllocationUnits") ?? "";
  const scale = unit.includes("2^30") ? 1024 : unit.includes("2^10") ? 1 / 1024 : 1;
  const memory = quantity("4");
  const firmware = withAttribute("Config", "key", "firmware");
  return {
    disks,
    cards: ofType("10").length,
    cores: quantity("3"),
    memory: memory === undefined ? undefined : memory * scale,
    isEfi: firmware !== undefined && attributeOf(firmware, "value") === "efi",
  };
}

function attributeOf(tag: string, name: string): string | undefined {
  return new RegExp(`[\\s:]${name}\\s*=\\s*["']([^"']*)["']`).exec(tag)?.[1];
}
