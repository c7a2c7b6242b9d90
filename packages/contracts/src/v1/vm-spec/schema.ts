// The typed part of a VirtualMachine's spec as a schema. Ranges and enumerations are PVE's and are checked with its own
// rules when the key behind a field is; here is what each field is and means.
import { Type } from "typebox";
import type { TProperties, TSchema } from "typebox";
import { addressFields, cpuTypeFields, customFields, diskFields, networkFields } from "./fields.ts";
import type { PropertyField } from "./fields.ts";
import { schedulingFields } from "../scheduling.ts";

const closed = { additionalProperties: false } as const;

/** A size with its unit. What is wrong with another is said by the mapping, in words. */
const size = (description: string) => Type.Optional(Type.String({ description, maxLength: 32 }));
const text = (description: string) => Type.Optional(Type.String({ description, maxLength: 65_536 }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
const count = (description: string, minimum: number) => Type.Optional(Type.Integer({ description, minimum }));

const DESCRIBED: Readonly<Record<string, string>> = {
  bridge: "The node's bridge it is put on.",
  cache: "none, writethrough, writeback, unsafe or directsync.",
  cputype: "host, x86-64-v2-AES, qemu64, custom-NAME.",
  discard: "on: what the guest frees is given back.",
  firewall: "Whether it may send with its own MAC address only.",
  flags: "+aes;-pcid",
  format: "raw or qcow2, where a disk is made.",
  gw: "Gateway of IPv4.",
  gw6: "Gateway of IPv6.",
  "import-from": "A volume whose data a new disk gets.",
  iothread: "A thread of its own for it.",
  ip: "dhcp, or an address with its prefix: 192.0.2.10/24.",
  ip6: "auto, dhcp, or an address with its prefix.",
  link_down: "The cable is pulled.",
  macaddr: "Drawn where it is not given.",
  media: "cdrom or disk.",
  model: "What the guest sees; a card is virtio where nothing is said.",
  rate: "Most megabytes a second.",
  tag: "VLAN of the card.",
  trunks: "VLANs that pass with their tag: 2;5-9.",
};

export const typedVmSpec = {
  vmid: Type.Optional(Type.Integer({ description: "The same as metadata.name; may be left out." })),
  cpu: Type.Optional(
    Type.Object(
      {
        cores: count("Per socket.", 1),
        sockets: count("", 1),
        limit: Type.Optional(
          Type.Number({ minimum: 0, description: "Most CPUs' worth of time; 0 = no limit." }),
        ),
        units: count("Weight against other guests.", 1),
        vcpus: count("CPUs plugged in at start, where they can be hotplugged.", 1),
        affinity: text("Host CPUs it runs on: 0,5,8-11."),
        numa: flag("Whether the guest sees NUMA nodes."),
        ...properties(cpuTypeFields),
      },
      closed,
    ),
  ),
  memory: Type.Optional(
    Type.Object(
      {
        size: size("With its unit: 4Gi, 512Mi."),
        ballooning: flag("false: the guest has no balloon and keeps all of it."),
        minimum: size("The least it is left when the host needs memory."),
        shares: count("Weight in sharing the host's memory among balloons; 0 = none is taken.", 0),
      },
      closed,
    ),
  ),
  disks: list(
    {
      storage: text("Where a new disk is made; where the volume is."),
      size: size("Of a new disk, or what the volume has grown to: 32Gi."),
      volume: text(
        "local:100/vm-100-disk-0.qcow2, local:iso/x.iso, none; left out: a new one, or the one it has.",
      ),
      boot: flag("In the boot order, which is the order of disks, then of networks."),
      ...properties(diskFields),
    },
    "scsi0, virtio1, sata0, ide2, efidisk0, tpmstate0: PVE's key of it.",
  ),
  networks: list(
    { boot: flag("In the boot order, after the disks."), ...properties(networkFields) },
    "net0: PVE's key of it.",
  ),
  bios: Type.Optional(
    Type.Object(
      { type: Type.Optional(Type.Enum(["seabios", "ovmf"], { description: "ovmf is UEFI." })) },
      closed,
    ),
  ),
  cloudInit: Type.Optional(
    Type.Object(
      {
        type: text("nocloud, configdrive2, opennebula."),
        user: text("Instead of the image's own."),
        password: Type.Optional(
          Type.String({
            description: "Its hash, as `openssl passwd -5` makes it. Never shown.",
            maxLength: 1024,
            writeOnly: true,
          }),
        ),
        upgrade: flag("Upgrade packages at the first boot."),
        sshKeys: Type.Optional(
          Type.Array(Type.String({ maxLength: 65_536 }), { description: "Public keys." }),
        ),
        searchDomain: text(""),
        nameservers: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 64 }))),
        addresses: list(properties(addressFields), "ipconfig0, which is that of net0."),
        custom: Type.Optional(
          Type.Object(properties(customFields), { ...closed, description: "Snippets' volumes." }),
        ),
      },
      closed,
    ),
  ),
  template: flag("A template is cloned and never runs."),
  scheduling: Type.Optional(
    Type.Object(
      {
        ...schedulingFields,
        startOnBoot: flag("Started when its node has."),
        startOrder: count("Lower ones first; stopped the other way round.", 0),
        startDelaySeconds: count("Before the next one.", 0),
        stopTimeoutSeconds: count("Before it is stopped hard.", 0),
      },
      closed,
    ),
  ),
} satisfies TProperties;

function list(item: TProperties, name: string): TSchema {
  return Type.Optional(
    Type.Array(
      Type.Object({ name: Type.String({ description: name, pattern: "^[a-z]+[0-9]+$" }), ...item }, closed),
      { maxItems: 64 },
    ),
  ) as unknown as TSchema;
}

function properties(fields: readonly PropertyField[]): TProperties {
  return Object.fromEntries(
    fields.map(({ field, pve, type }) => {
      const description = DESCRIBED[pve] ?? `PVE's ${pve}.`;
      switch (type) {
        case "boolean":
          return [field, Type.Optional(Type.Boolean({ description }))];
        case "integer":
          return [field, Type.Optional(Type.Integer({ description }))];
        case "number":
          return [field, Type.Optional(Type.Number({ description }))];
        case "string":
          return [field, Type.Optional(Type.String({ description, maxLength: 1024 }))];
      }
    }),
  );
}
