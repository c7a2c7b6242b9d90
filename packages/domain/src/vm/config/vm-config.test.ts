import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { apiConfig, configText } from "./api-config.ts";
import { decodeText, encodeText } from "./config-text.ts";
import { checkVmValue, driveKeys, keyKind, vmKeySchema } from "./keys.ts";
import { parseVmConfig } from "./parse-config.ts";
import { emptyVmConfig, type VmConfig } from "./vm-config.ts";
import { writeVmConfig } from "./write-config.ts";

const digestOf = (text: string) => `len${text.length}`;
function read(text: string, warnings: string[] = []): VmConfig {
  return parseVmConfig(text, { vmid: 100, digestOf, warn: (message) => warnings.push(message) });
}
const strictly = (text: string) => () => parseVmConfig(text, { vmid: 100, digestOf, strict: true });

describe("reading a VM's configuration file", () => {
  it("reads every section and the digest of the text", () => {
    const text = [
      "#first %3A line",
      "#second",
      "cores: 02",
      "kvm: off",
      "args: -smp  2 ",
      "boot: ",
      "[PENDING]",
      "delete: net0,!scsi1",
      "[special:fleecing]",
      "fleecing-images: zfs:vm-100-fleece-0",
      "[snap]",
      "description: made %C3%BC",
      "snapstate: prepare",
      "",
    ].join("\n");
    expect(read(text)).toEqual({
      digest: digestOf(text),
      values: { cores: "2", kvm: "0", args: "-smp  2", boot: " ", description: "first : line\nsecond" },
      pending: { delete: "net0,!scsi1" },
      special: { fleecing: { "fleecing-images": "zfs:vm-100-fleece-0" } },
      snapshots: { snap: { description: "made ü", snapstate: "prepare" } },
    });
  });

  it("says what it skipped, and refuses the same strictly", () => {
    const cases = [
      ["cat: meow", "vm 100 - unable to parse value of 'cat' - unknown setting 'cat'"],
      [
        "cores: many",
        "vm 100 - unable to parse value of 'cores' - type check ('integer') failed - got 'many'",
      ],
      [
        "cpulimit: x",
        "vm 100 - unable to parse value of 'cpulimit' - type check ('number') failed - got 'x'",
      ],
      ["numa: x", "vm 100 - unable to parse value of 'numa' - type check ('boolean') failed - got 'x'"],
      ["delete: x", "vm 100 - property 'delete' is only allowed in [PENDING]"],
      ["Nonsense", "vm 100 - unable to parse config: Nonsense"],
      ["[PENDING]\n[pending]", "vm 100 - duplicate section: pending"],
      ["[a1]\n[a1]", "vm 100 - duplicate snapshot section: a1"],
      ["[special:fleecing]\n[special:fleecing]", "vm 100 - duplicate special section: fleecing"],
      ["[special:other]\nname: x", "vm 100 - skipping unknown section: 'special:other'"],
      [
        "net0: bridge=vmbr0",
        "vm 100 - unable to parse value of 'net0' - format error\nmodel: property is missing and it is not optional",
      ],
    ] as const;
    for (const [text, message] of cases) {
      const warnings: string[] = [];
      read(text, warnings);
      expect(warnings).toEqual([message]);
      expect(strictly(text)).toThrow(message);
    }
  });

  it("reads what other systems' editors leave", () => {
    const text = "#a\r\n#b\r\ncores: 2\r\n\r\n[snap]\r\n[PENDING] \r\ncores: 3\r\n";
    expect(read(text)).toMatchObject({
      values: { cores: "2", description: "a\r\nb" },
      pending: { cores: "3" },
      snapshots: { snap: {} },
    });
    expect(writeVmConfig(read(text))).toBe("#a%0D\n#b\ncores: 2\n\n[PENDING]\ncores: 3\n\n[snap]\n");
  });

  it("keeps a special section under a name written otherwise, but takes none of its lines", () => {
    const warnings: string[] = [];
    const config = read("[special:CloudInit]\nname: a\n", warnings);
    expect(config.special).toEqual({ CloudInit: {} });
    expect(warnings).toEqual(["vm 100 - unable to parse value of 'name' - check_type: no schema defined"]);
    expect(writeVmConfig(config)).toBe("\n[special:CloudInit]\n");
  });

  it("skips every line of a section it does not know, comments too, until the next one", () => {
    const config = read("name: a\n[x y]\n#note\nname: b\nsnapstate: delete\n[s1]\n#mine\n");
    expect(config.values).toEqual({ name: "a" });
    expect(config.snapshots).toEqual({ s1: { description: "mine" } });
  });

  it("lets the last of two sections and of two lines win", () => {
    const config = read("cores: 1\ncores: 2\n[s1]\nname: a\n[s1]\ncores: 4\n[PENDING]\nname: x\n[PENDING]\n");
    expect(config.values).toEqual({ cores: "2" });
    expect(config.snapshots).toEqual({ s1: { cores: "4" } });
    expect(config.pending).toEqual({});
  });

  it("takes a snapshot's state only where a snapshot is", () => {
    const config = read("snapstate: prepare\n[s1]\nsnapstate: delete\n[s2]\nsnapstate: other\n");
    expect(config.values).toEqual({});
    expect(config.snapshots).toEqual({ s1: { snapstate: "delete" }, s2: {} });
  });

  it("takes old names and quoted text", () => {
    expect(read('cdrom: none,media=cdrom\nsearchdomain: "lan"\n').values).toEqual({
      ide2: "none,media=cdrom",
      searchdomain: "lan",
    });
    expect(checkVmValue("name", "a\nb")).toEqual({ ok: false, error: "property contains a line feed\n" });
  });

  it("survives arbitrary text and writes back what it reads the same way", () => {
    const line = fc.oneof(
      fc.string(),
      fc.constantFrom(
        "[PENDING]",
        "[snap1]",
        "[special:cloudinit]",
        "name: a",
        "#note",
        "cores: 4",
        "scsi0: l1:x",
      ),
    );
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const once = writeVmConfig(read(lines.join("\n")));
        expect(writeVmConfig(read(once))).toBe(once);
      }),
    );
  });
});

describe("writing a VM's configuration file", () => {
  const written = (config: Partial<VmConfig>) => writeVmConfig({ ...emptyVmConfig, ...config });

  it("puts the description first, keys sorted, and empty pending descriptions as a bare comment", () => {
    expect(
      written({
        values: { sockets: "1", description: "a: b\n\nc\n", cores: "1" },
        pending: { description: "" },
      }),
    ).toBe("#a%3A b\n#\n#c\ncores: 1\nsockets: 1\n\n[PENDING]\n#\n");
  });

  it("renames keys of old releases", () => {
    expect(written({ values: { smp: "2", cores: "4", cdrom: "none" } })).toBe("ide2: none\nsockets: 2\n");
    expect(written({ values: { smp: "2", sockets: "4" } })).toBe("sockets: 4\n");
    expect(() => written({ values: { cdrom: "none", ide2: "none" } })).toThrow(
      "option ide2 conflicts with cdrom",
    );
  });

  it("drops unused volumes that are attached again, and cloud-init facts without a drive", () => {
    const values = { unused0: "l1:x", unused1: "l1:y", scsi0: "file=l1:x,size=1G" };
    expect(written({ values, special: { cloudinit: { name: "x" } } })).toBe(
      "scsi0: file=l1:x,size=1G\nunused1: l1:y\n",
    );
    expect(
      written({ values: { ide2: "l1:vm-1-cloudinit,media=cdrom" }, special: { cloudinit: { name: "x" } } }),
    ).toContain("[special:cloudinit]\nname: x\n");
  });

  it("counts a volume that the next start attaches as used", () => {
    const values = { unused0: "l1:x", unused1: "l1:y" };
    expect(written({ values, pending: { scsi3: "l1:x,size=1G" } })).toBe(
      "unused1: l1:y\n\n[PENDING]\nscsi3: l1:x,size=1G\n",
    );
    // Snapshots do not use: what only they name must stay in sight.
    expect(written({ values: { unused0: "l1:x" }, snapshots: { s1: { scsi3: "l1:x" } } })).toContain(
      "unused0: l1:x\n",
    );
  });

  it("writes no comment for a description of nothing but line ends", () => {
    expect(written({ values: { description: "\n\n", name: "a" } })).toBe("name: a\n");
    expect(written({ values: { description: "\n\na" } })).toBe("#\n#\n#a\n");
  });

  it("refuses what it could not read back", () => {
    expect(() => written({ values: { cores: "x" } })).toThrow("unable to parse value of 'cores'");
    expect(() => written({ values: { delete: "x" } })).toThrow("only allowed in [PENDING]");
    expect(() => written({ snapshots: { Pending: {} } })).toThrow("is forbidden");
  });
});

describe("text in configuration files", () => {
  it("encodes control characters, %, : and everything beyond ASCII, and back", () => {
    expect(encodeText("50%: ü\t~")).toBe("50%25%3A %C3%BC%09~");
    expect(decodeText("%zz %4 %C3%BC")).toBe("%zz %4 ü");
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(decodeText(encodeText(text))).toBe(text);
      }),
    );
  });
});

describe("keys", () => {
  it("knows indexed keys, kinds and the order of drives", () => {
    expect(vmKeySchema("net31")).toBeDefined();
    expect(vmKeySchema("net32")).toBeUndefined();
    expect(vmKeySchema("numa")?.type).toBe("boolean");
    expect(vmKeySchema("numa7")?.type).toBe("string");
    expect([keyKind("net3"), keyKind("efidisk0"), keyKind("smbios1"), keyKind("cores")]).toEqual([
      "net",
      "efidisk0",
      "smbios1",
      "cores",
    ]);
    expect(driveKeys).toHaveLength(59);
    expect(driveKeys.indexOf("scsi0")).toBeLessThan(driveKeys.indexOf("virtio0"));
  });

  it("shows values as the API does", () => {
    expect(
      apiConfig({
        cores: "2",
        onboot: "1",
        memory: "2048",
        cpulimit: "1.5",
        cipassword: "x",
        net0: "virtio",
      }),
    ).toEqual({
      cores: 2,
      onboot: 1,
      memory: "2048",
      cpulimit: "1.5",
      cipassword: "**********",
      net0: "virtio",
    });
    expect([configText(true), configText(false), configText(4), configText("x")]).toEqual([
      "1",
      "0",
      "4",
      "x",
    ]);
  });
});
