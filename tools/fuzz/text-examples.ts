// What QEMU says on a monitor, and descriptions of machines, as examples to break.

const lines = (...messages: readonly unknown[]): string =>
  messages.map((message) => `${JSON.stringify(message)}\r\n`).join("");

export const QMP_EXAMPLES: Readonly<Record<string, string>> = {
  "greeting.txt": lines(
    {
      QMP: {
        version: { qemu: { micro: 22, minor: 2, major: 7 }, package: "Debian 1:7.2" },
        capabilities: ["oob"],
      },
    },
    { return: {}, id: "gpve-1" },
  ),
  "events.txt": lines(
    { timestamp: { seconds: 1700000000, microseconds: 123456 }, event: "RESUME" },
    {
      timestamp: { seconds: 1700000001, microseconds: 5 },
      event: "SHUTDOWN",
      data: { guest: true, reason: "guest-shutdown" },
    },
    { timestamp: { seconds: -1, microseconds: -1 }, event: "NIC_RX_FILTER_CHANGED", data: { path: "/a/b" } },
  ),
  "answers.txt": lines(
    { id: "gpve-2", error: { class: "CommandNotFound", desc: "The command x has not been found" } },
    { return: [{ "cpu-index": 0, "thread-id": 4242, props: { "core-id": 0 } }], id: "gpve-3" },
    { return: { status: "running", running: true }, id: "gpve-4" },
  ),
};

const item = (type: number, ...more: readonly string[]): string =>
  `<Item><rasd:ResourceType>${type}</rasd:ResourceType>${more.join("")}</Item>`;

export const OVF_EXAMPLES: Readonly<Record<string, string>> = {
  "machine.ovf": [
    '<?xml version="1.0"?>',
    '<Envelope xmlns:ovf="http://x" xmlns:rasd="http://y"><!-- made by hand -->',
    '<References><File ovf:id="file1" ovf:href="disk one.vmdk"/></References>',
    '<DiskSection><Disk ovf:diskId="vmdisk1" ovf:capacity="20" ovf:capacityAllocationUnits="byte * 2^30"',
    ' ovf:fileRef="file1"/></DiskSection>',
    '<VirtualSystem ovf:id="web-1"><Name>web &amp; db &#x31;</Name>',
    '<OperatingSystemSection ovf:id="94"/><VirtualHardwareSection>',
    item(3, "<rasd:VirtualQuantity>2</rasd:VirtualQuantity>"),
    item(
      4,
      "<rasd:VirtualQuantity>2048</rasd:VirtualQuantity>",
      "<rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits>",
    ),
    item(
      6,
      "<rasd:InstanceID>3</rasd:InstanceID>",
      "<rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType>",
    ),
    item(10, "<rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType>"),
    item(
      17,
      "<rasd:AddressOnParent>0</rasd:AddressOnParent>",
      "<rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource>",
      "<rasd:Parent>3</rasd:Parent>",
    ),
    '<vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="efi"/>',
    "</VirtualHardwareSection></VirtualSystem></Envelope>",
  ].join("\n"),
  "cdata.ovf":
    "<Envelope><VirtualSystem id='a'><Name><![CDATA[x<y]]></Name><Info>&lt;&#65;</Info></VirtualSystem></Envelope>",
};
