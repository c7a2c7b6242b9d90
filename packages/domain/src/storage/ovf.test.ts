import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestTypeOfOs } from "./ovf-os.ts";
import { parseOvf } from "./ovf.ts";
import { parseXml } from "./xml.ts";

const item = (fields: Readonly<Record<string, string | number>>): string =>
  `<Item>${Object.entries(fields)
    .map(([name, value]) => `<rasd:${name}>${value}</rasd:${name}>`)
    .join("")}</Item>`;

const envelope = (items: string, more = ""): string => `<?xml version="1.0"?>
<!-- made by hand -->
<Envelope xmlns:ovf="http://x" xmlns:rasd="http://y">
  <References><File ovf:id="file1" ovf:href="disk 1.vmdk"/><File ovf:id="file2" ovf:href="cd.iso"/></References>
  <DiskSection><Disk ovf:capacity="8" ovf:capacityAllocationUnits="byte * 2^30" ovf:diskId="vmdisk1" ovf:fileRef="file1"/></DiskSection>
  <VirtualSystem ovf:id="vm"><Name>web-1</Name><VirtualHardwareSection>${items}${more}</VirtualHardwareSection></VirtualSystem>
</Envelope>`;

const hardware = [
  item({ InstanceID: 1, ResourceType: 3, VirtualQuantity: 2 }),
  item({ InstanceID: 2, ResourceType: 4, VirtualQuantity: 4, AllocationUnits: "byte * 2^30" }),
  item({ InstanceID: 3, ResourceType: 6, ResourceSubType: "VirtualSCSI" }),
  item({ InstanceID: 4, ResourceType: 17, Parent: 3, AddressOnParent: 0, HostResource: "ovf:/disk/vmdisk1" }),
  item({ InstanceID: 5, ResourceType: 10, ResourceSubType: "VmxNet3" }),
  item({ InstanceID: 6, ResourceType: 10, ResourceSubType: "other" }),
].join("");

describe("OVF descriptions", () => {
  it("tell CPUs, memory, firmware, controllers, disks and networks", () => {
    expect(
      parseOvf(envelope(hardware, '<vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="efi"/>')),
    ).toEqual({
      config: {
        name: "web-1",
        cores: 2,
        memory: 4096,
        ostype: "other",
        bios: "ovmf",
        boot: "order=scsi0",
        scsihw: "pvscsi",
      },
      disks: [{ address: "scsi0", file: "disk 1.vmdk", size: 8 * 1024 ** 3 }],
      nets: { net0: { model: "vmxnet3" }, net1: { model: "e1000" } },
    });
  });

  it("leave out what they do not say", () => {
    const bare = envelope(
      item({ InstanceID: 4, ResourceType: 17, Parent: 9, AddressOnParent: 0, HostResource: "/file/file2" }),
    );
    expect(parseOvf(bare.replace("web-1", " ?! "))).toEqual({
      config: { ostype: "other" },
      disks: [],
      nets: {},
    });
  });

  it.each([
    ["Win_2008-R2 x64", "Win2008-R2x64"],
    ["-.a.b.-", "a.b"],
    ["caf&#233;&#x31;&amp;", "caf1"],
  ])("make of the name %j what a host can be called", (written, name) => {
    expect(parseOvf(envelope(hardware).replace("web-1", written)).config["name"]).toBe(name);
  });

  it("know operating systems by their numbers", () => {
    const withOs = (id: string) =>
      parseOvf(
        envelope("").replace(
          "<VirtualHardwareSection>",
          `<OperatingSystemSection ovf:id="${id}" vmw:osType="x"/><VirtualHardwareSection>`,
        ),
      ).config["ostype"];
    expect([withOs("103"), withOs("96"), withOs("1"), withOs("")]).toEqual(["win7", "l26", "other", "other"]);
    expect([guestTypeOfOs("29"), guestTypeOfOs("18"), guestTypeOfOs("constructor")]).toEqual([
      "solaris",
      "wxp",
      "other",
    ]);
  });

  it("read the firmware wherever its attributes stand, and not in comments", () => {
    const firmware = (text: string) => parseOvf(envelope(hardware, text)).config["bios"];
    expect(firmware('<vmw:Config vmw:value="efi" vmw:key="firmware"/>')).toBe("ovmf");
    expect(firmware('<!-- <vmw:Config vmw:key="firmware" vmw:value="efi"/> -->')).toBeUndefined();
    expect(firmware('<vmw:Config vmw:key="firmware" vmw:value="bios"/>')).toBeUndefined();
  });

  it.each([
    ["byte * 2^20", 512, 512],
    ["byte * 10 ^ 9", 2, 1907],
    ["byte", 1_073_741_824, 1024],
    ["GigaBytes", 3, 3072],
    ["", 2048, 2048],
    ["hertz * 10^6", 2048, 2048],
  ])("count memory in %j", (unit, amount, memory) => {
    const items = item({ ResourceType: 4, VirtualQuantity: amount, AllocationUnits: unit });
    expect(parseOvf(envelope(items)).config["memory"]).toBe(memory);
  });

  it("take every disk along, on controllers of one kind one after the other", () => {
    const controllers = [1, 2].map((id) => item({ InstanceID: id, ResourceType: 5 })).join("");
    const disk = (parent: number, at: number | string, resource = "ovf:/disk/vmdisk1") =>
      item({ ResourceType: 17, Parent: parent, AddressOnParent: at, HostResource: resource });
    const disks = (text: string) => {
      const machine = parseOvf(envelope(controllers + text));
      return [machine.config["boot"], machine.disks.map(({ address }) => address).join(" ")];
    };
    expect(disks(disk(1, 0) + disk(1, 1) + disk(2, 0) + disk(2, 1))).toEqual([
      "order=ide0;ide1;ide2;ide3",
      "ide0 ide1 ide2 ide3",
    ]);
    expect(disks(disk(1, 3) + disk(1, 9))).toEqual(["order=ide3;ide0", "ide3 ide0"]);
    expect(disks(disk(1, 0).repeat(6))[1]).toBe("ide0 ide1 ide2 ide3");
    for (const bad of [
      disk(9, 0),
      disk(1, "x"),
      disk(1, 0, "ovf:/disk/none"),
      disk(1, 0, "/etc/passwd/../x"),
      disk(1, 0, "http://x/disk/vmdisk1"),
    ])
      expect(disks(bad)).toEqual([undefined, ""]);
    expect(disks(disk(1, 0, "ovf:/file/file2"))[1]).toBe("ide0");
  });

  it("are refused when they name files elsewhere or describe nothing", () => {
    for (const path of [
      "../../etc/passwd",
      "/etc/passwd",
      "sub/disk.vmdk",
      "..",
      ".",
      "a;b",
      "a&#10;b",
      "a\\b",
    ])
      expect(() => parseOvf(envelope(hardware).replace("disk 1.vmdk", path))).toThrow(
        /^referenced path '[^']*' is invalid$/,
      );
    expect(() => parseOvf("<Envelope/>")).toThrow("describes no virtual machine");
  });

  it.each([
    ['<!DOCTYPE x [<!ENTITY a "b">]><x/>', "no XML this software reads"],
    ["<a><b></a>", "broken XML"],
    ["<a>", "cut off"],
    ['<?xml version="1.0"?><!DOCTYPE s [<!ENTITY e SYSTEM "file:///proc/self/comm">]><a>&e;</a>', "no XML"],
    ["</a>", "broken XML"],
    ["<a>".repeat(100), "nested too deeply"],
  ])("are refused as %j", (text, why) => {
    expect(() => parseXml(text)).toThrow(why);
  });

  it("take no longer than their length asks for, whatever repeats in them", () => {
    const many = 2_000_000;
    const name = `a${"-".repeat(many)}a`;
    for (const text of [
      `<${"a".repeat(many)}`,
      `<a ${"b".repeat(many)}/>`,
      `<a ${`b"="`.repeat(many / 4)}/>`,
      "<!--".repeat(many / 4),
      `<VirtualSystem><Name>${name}</Name></VirtualSystem>`,
    ]) {
      const started = process.cpuUsage().user / 1000;
      try {
        parseOvf(text);
      } catch (err) {
        expect(isAppError(err)).toBe(true);
      }
      expect(process.cpuUsage().user / 1000 - started).toBeLessThan(5_000);
    }
  });

  it("keep text and attributes as they are", () => {
    const parsed = parseXml(`<a x="1 &lt; 2" n:y='z'>b &amp; c<![CDATA[<d>]]>&#x10FFFF;&#9999999;&e;</a>`)
      .children[0];
    expect([parsed?.text, ...(parsed?.attributes ?? [])]).toEqual([
      "b & c<d>\u{10ffff}&#9999999;&e;",
      ["x", "1 < 2"],
      ["y", "z"],
    ]);
  });

  it("never do worse than refuse", () => {
    const piece = fc.constantFrom(
      "<",
      ">",
      "a",
      "/",
      "<a>",
      "</a>",
      '"',
      "'",
      "=",
      "<!--",
      "-->",
      "&lt;",
      "<a b='c'/>",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (parts) => {
        let unexpected: unknown;
        try {
          parseXml(parts.join(""));
        } catch (err) {
          if (!(err instanceof AppError)) unexpected = err;
        }
        expect(unexpected).toBeUndefined();
      }),
    );
  });
});
