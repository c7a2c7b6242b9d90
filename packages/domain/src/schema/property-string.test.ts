import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parsePropertyString, type PropertyRecord } from "./check.ts";
import { methodByKey } from "./method-table.ts";
import type { PropertyFormat } from "./properties.ts";
import { printPropertyString, readPropertyString } from "./property-string.ts";

const parameters = methodByKey("PUT /nodes/{node}/qemu/{vmid}/config")?.parameters ?? {};
function formatOf(key: string): PropertyFormat {
  const format = parameters[key]?.format;
  if (typeof format !== "object") throw new Error(`${key} has no property format`);
  return format;
}
const net = formatOf("net[n]");
const scsi = formatOf("scsi[n]");
const agent = formatOf("agent");

describe("property strings", () => {
  it("reads a bare value, pairs, aliases, booleans and sizes", () => {
    expect(
      readPropertyString(scsi, "local:100/vm-100-disk-0.qcow2,iothread=on,size=32G,mbps_rd=1.5"),
    ).toEqual({
      file: "local:100/vm-100-disk-0.qcow2",
      iothread: true,
      size: 32 * 1024 ** 3,
      mbps_rd: 1.5,
    });
    expect(readPropertyString(scsi, "volume=a1:b,bps_rd_length=5")).toEqual({
      file: "a1:b",
      bps_rd_max_length: 5,
    });
    expect(readPropertyString(agent, "1,guest-fsfreeze=no")).toEqual({ enabled: true, "freeze-fs": false });
  });

  it("reads a NIC's model and MAC address from one pair", () => {
    const text = "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1";
    const value = readPropertyString(net, text, "net0");
    expect(value).toEqual({ model: "virtio", macaddr: "BC:24:11:00:00:01", bridge: "vmbr0", firewall: true });
    expect(printPropertyString(net, value)).toBe(text);
    expect(printPropertyString(net, { model: "e1000", bridge: "vmbr1" })).toBe("e1000,bridge=vmbr1");
  });

  it("prints the bare value first, then required keys, then the rest sorted", () => {
    expect(
      printPropertyString(scsi, {
        ssd: true,
        size: 1024 ** 4,
        file: "s1:x",
        cache: "none",
        backup: false,
        aio: undefined,
      }),
    ).toBe("s1:x,backup=0,cache=none,size=1T,ssd=1");
    expect(printPropertyString("pve-qm-rng", { period: 5, source: "/dev/urandom" }, ["period"])).toBe(
      "/dev/urandom",
    );
    expect(
      printPropertyString({ b: { optional: true }, c: {}, a: { optional: true } }, { a: 1, b: 2, c: 3 }),
    ).toBe("c=3,a=1,b=2");
  });

  it.each([
    [net, "virtio,e1000=BC:24:11:00:00:01", "key alias 'model' is already defined\n"],
    [net, "virtio,tag=1,tag=2", "duplicate key in comma-separated list property: tag\n"],
    [net, "virtio,=x", "missing key in comma-separated list property\n"],
    [net, "virtio,tag=", "missing key in comma-separated list property\n"],
    [net, "virtio,warp=9", "invalid key in comma-separated list property: warp\n"],
    [net, "virtio,toString=9", "invalid key in comma-separated list property: toString\n"],
    [
      { a: { type: "string" } } as const,
      "x",
      "value without key, but schema does not define a default key\n",
    ],
  ])("refuses a malformed list (%#)", (format, text, error) => {
    expect(parsePropertyString(format, text)).toEqual({ ok: false, error, errors: {} });
    expect(() => readPropertyString(format, text)).toThrow(error.trim());
  });

  it("names the keys that do not fit", () => {
    expect(() => readPropertyString(net, "virtio,tag=x", "net0")).toThrow(
      "net0.tag: type check ('integer') failed",
    );
    expect(parsePropertyString("pve-node", "x").ok).toBe(false);
    expect(parsePropertyString("prune-backups", "keep-all=1,keep-last=3")).toMatchObject({ ok: false });
    expect(parsePropertyString("prune-backups", "keep-last=3").ok).toBe(true);
    expect(parsePropertyString("backup-fleecing", "1")).toMatchObject({ ok: false });
    expect(parsePropertyString("backup-fleecing", "1,storage=fast").ok).toBe(true);
    expect(parsePropertyString("backup-fleecing", "0").ok).toBe(true);
  });

  it("refuses to print what could not be read back", () => {
    expect(() => printPropertyString(net, { model: "virtio", bridge: "a,b" })).toThrow(
      "illegal value with commas",
    );
    expect(() => printPropertyString(net, { warp: "9" })).toThrow("invalid key 'warp'");
    expect(() => printPropertyString("pve-node", {})).toThrow("not a property format");
  });

  it("reads back what it prints", () => {
    const word = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,12}$/);
    const disk = fc.record(
      {
        file: word.map((name) => `local:${name}`),
        size: fc.integer({ min: 0, max: 2 ** 44 }),
        iothread: fc.boolean(),
        ssd: fc.boolean(),
        iops_rd: fc.integer({ min: 0, max: 1_000_000 }),
        cache: fc.constantFrom("none", "writeback"),
        serial: word,
      },
      { requiredKeys: ["file"] },
    );
    fc.assert(
      fc.property(disk, (value) => {
        expect(readPropertyString(scsi, printPropertyString(scsi, value as PropertyRecord))).toEqual(value);
      }),
    );
  });

  it("never throws on arbitrary text", () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.constantFrom<string | PropertyFormat>(net, scsi, "pve-qm-boot", "nope"),
        (text, format) => {
          const parsed = parsePropertyString(format, text);
          const again = parsed.ok
            ? parsePropertyString(format, printPropertyString(format, parsed.value))
            : parsePropertyString(format, text);
          expect(again).toEqual(parsed);
        },
      ),
    );
  });
});
