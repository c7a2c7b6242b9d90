// cluster.yaml: control planes, pools of workers, single machines.
import { type TProperties, Type } from "typebox";
import {
  address,
  count,
  defaultSection,
  duration,
  flag,
  hostname,
  label,
  list,
  macAddress,
  oneOf,
  orNull,
  patches,
  plainText,
  schematicWord,
  section,
  stringMap,
  tags,
} from "./schema-parts.ts";

const machineKeys = (cores: number, memoryMiB: number, diskGiB: number) => ({
  cores: count(1, 512, cores),
  memoryMiB: count(1024, 16_777_216, memoryMiB, "MiB"),
  diskGiB: count(6, 131_072, diskGiB, "GiB"),
  cpu: Type.String({ minLength: 1, default: "host" }),
  scsihw: oneOf(["virtio-scsi-pci", "virtio-scsi-single"], "virtio-scsi-pci"),
  bios: oneOf(["ovmf", "seabios"], "ovmf"),
  cloudInitDrive: oneOf(["ide2", "scsi30"], "ide2"),
  protection: Type.Boolean({
    default: false,
    description: "the platform's own guard: nobody deletes the machine there by hand",
  }),
  extraDisks: list(
    section({ gib: Type.Integer({ minimum: 1 }), storage: plainText() }, "a disk beside the system's"),
  ),
  pci: list(section({ mapping: plainText() }, "a mapped PCI device")),
});

const machine = (cores: number, memoryMiB: number, diskGiB: number) =>
  defaultSection(machineKeys(cores, memoryMiB, diskGiB), "what a machine has");

export const controlPlane = defaultSection(
  {
    count: count(1, 9, 3),
    schedulable: flag(false),
    machine: machine(4, 8192, 40),
    patches: patches(),
  },
  "machines that run etcd and the Kubernetes API",
);

export const pool = section(
  {
    name: label(),
    role: Type.Enum(["worker", "storage"], {
      default: "worker",
      description:
        "storage: labelled gpve.io/role=storage, with disks of its own and the tools of NFS, iSCSI and Ceph clients",
    }),
    count: count(0, 5000, 1),
    machine: machine(4, 8192, 80),
    labels: stringMap("of the nodes; what a worker may not give its own node is given by the administrator"),
    taints: stringMap("of the nodes, from their first moment on: KEY: VALUE:EFFECT"),
    tags: tags(),
    arch: orNull(Type.Enum(["amd64", "arm64"])),
    extensions: list(schematicWord()),
    patches: patches(),
    upgrade: defaultSection(
      {
        maxUnavailable: count(1, 5000, 1),
        drain: defaultSection(
          {
            policy: oneOf(["strict", "evict-then-delete", "skip"], "strict"),
            timeout: duration("10m"),
          },
          "how a machine is emptied",
        ),
      },
      "how the pool is upgraded",
    ),
  },
  "workers that are alike",
);

/** The same keys, none of which is filled in: what is not named stays as the pool has it. */
function overridesOf(properties: TProperties) {
  const keys = Object.entries(properties).map(([key, type]) => {
    const { default: _left, ...rest } = type as { default?: unknown };
    return [key, Type.Optional(rest)] as const;
  });
  return Type.Object(Object.fromEntries(keys), { additionalProperties: false });
}

export const node = section(
  {
    host: Type.Optional(plainText()),
    hostname: Type.Optional(hostname()),
    ip: Type.Optional(address()),
    vmid: Type.Optional(Type.Integer({ minimum: 100, maximum: 999_999_999 })),
    mac: orNull(macAddress()),
    machine: Type.Optional(overridesOf(machineKeys(1, 1024, 6))),
    patches: patches(),
  },
  "what is different about one machine",
);
