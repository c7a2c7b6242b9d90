import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { parseOvf, parseXml } from "./ovf.ts";

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
      config: { name: "web-1", cores: 2, memory: 4096, scsihw: "pvscsi", bios: "ovmf" },
      disks: [{ address: "scsi0", file: "disk 1.vmdk", size: 8 * 1024 ** 3 }],
      nets: { net0: { model: "vmxnet3" }, net1: { model: "e1000" } },
    });
  });

  it("leave out what they do not say", () => {
    const bare = envelope(
      item({ InstanceID: 4, ResourceType: 17, Parent: 9, AddressOnParent: 0, HostResource: "/file/file2" }),
    );
    expect(parseOvf(bare.replace("web-1", "not a name!"))).toEqual({ config: {}, disks: [], nets: {} });
  });

  it("are refused when they name files elsewhere or describe nothing", () => {
    expect(() => parseOvf(envelope(hardware).replace("disk 1.vmdk", "../../etc/passwd"))).toThrow(
      "forbidden name",
    );
    expect(() => parseOvf("<Envelope/>")).toThrow("describes no virtual machine");
  });

  it.each([
    ['<!DOCTYPE x [<!ENTITY a "b">]><x/>', "no XML this software reads"],
    ["<a><b></a>", "broken XML"],
    ["<a>", "cut off"],
    ["</a>", "broken XML"],
    ["<a>".repeat(100), "nested too deeply"],
  ])("are refused as %j", (text, why) => {
    expect(() => parseXml(text)).toThrow(why);
  });

  it("keep text and attributes as they are", () => {
    const parsed = parseXml(`<a x="1 &lt; 2" n:y='z'>b &amp; c<![CDATA[<d>]]></a>`).children[0];
    expect([parsed?.text, ...(parsed?.attributes ?? [])]).toEqual(["b & c<d>", ["x", "1 < 2"], ["y", "z"]]);
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
        try {
          parseXml(parts.join(""));
        } catch (err) {
          expect(err).toBeInstanceOf(AppError);
        }
      }),
    );
  });
});
