import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { typedVmSpec } from "../vm-spec/schema.ts";
import { condition } from "../condition.ts";
import { VM_PHASES } from "../vm-phase.ts";
import { allOf, privilege, toRead, type V1Permission } from "../permission.ts";

const read = privilege("/vms/{name}", "VM.Audit");
/** What the change needs in particular is judged by the method that makes it: by key, and for starting and stopping. */
const change: V1Permission = {
  allow: "privilege",
  path: "/vms/{name}",
  privileges: [
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.PowerMgmt",
  ],
  mode: "any",
};

export const virtualMachineKind: KindDeclaration = {
  kind: "VirtualMachine",
  plural: "virtualmachines",
  aliases: ["virtualmachine", "vm", "vms"],
  scope: "node",
  namespaced: true,
  description:
    "A virtual machine. Its name is its VMID; the same machine is under /nodes/{node}/qemu of /api2.",
  spec: Type.Object(
    {
      node: Type.Optional(
        Type.String({
          description:
            "The node that has it; may be left out where there is only one. auto: the scheduler finds one when it is made.",
        }),
      ),
      running: Type.Optional(
        Type.Boolean({ description: "Whether it shall run; a guest may switch itself off." }),
      ),
      ...typedVmSpec,
      config: Type.Optional(
        Type.Record(Type.String({ pattern: "^[a-z][a-z0-9_-]*$" }), Type.String({ maxLength: 65_536 }), {
          description:
            "PVE's configuration keys that have no field above, as in GET /nodes/{node}/qemu/{vmid}/config. Any key may be given here; a field that says something else is refused.",
        }),
      ),
      microvm: Type.Optional(
        Type.Object(
          {
            kernel: Type.String({
              description: "Volume of the kernel: local:snippets/vmlinuz, local:iso/kernel.img.",
            }),
            initrd: Type.Optional(Type.String({ description: "Volume of the initial RAM disk." })),
            cmdline: Type.Optional(Type.String({ maxLength: 2048 })),
          },
          {
            additionalProperties: false,
            description:
              "QEMU's microvm machine, which boots a kernel and has virtio devices only. Set when it is made; /api2 has no such machine.",
          },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    phase: Type.Enum([...VM_PHASES, "Unknown"], {
      description: "Where it is in its life; follows from the work under way and from what its node reports.",
    }),
    state: Type.Enum(["running", "stopped", "unknown"]),
    node: Type.String(),
    conditions: Type.Array(condition),
    name: Type.String(),
    cpus: Type.Number(),
    memoryBytes: Type.Integer(),
    diskBytes: Type.Integer(),
    template: Type.Boolean(),
    lock: Type.Optional(Type.String()),
    tags: Type.Optional(Type.Array(Type.String())),
    pending: Type.Optional(Type.Array(Type.String({ description: "Keys that wait for the next start." }))),
    snapshots: Type.Optional(Type.Array(Type.String())),
    startTime: Type.Optional(Type.String({ format: "date-time" })),
    uptimeSeconds: Type.Optional(Type.Integer()),
    addresses: Type.Optional(
      Type.Array(Type.String({ description: "What DHCP of this cluster gave its network cards." })),
    ),
    usage: Type.Optional(Type.Object({ cpu: Type.Number(), memoryBytes: Type.Integer() })),
  }),
  namePattern: "^[1-9][0-9]{2,8}$",
  nameWords: "its VMID, a number from 100 on",
  permissions: {
    ...toRead(read),
    create: privilege("/vms/{name}", "VM.Allocate"),
    // The answer shows the VM, so it must be theirs to see.
    replace: allOf(read, change),
    patch: allOf(read, change),
    delete: allOf(read, privilege("/vms/{name}", "VM.Allocate")),
  },
  // As tags and notes, which is what they are to PVE's clients.
  labelsPermission: privilege("/vms/{name}", "VM.Config.Options"),
  selectableFields: ["metadata.namespace", "spec.node", "status.phase", "status.state", "status.name"],
  columns: [
    { header: "VMID", field: "metadata.name" },
    { header: "NAME", field: "status.name" },
    { header: "NODE", field: "spec.node" },
    { header: "PHASE", field: "status.phase" },
    { header: "CPUS", field: "status.cpus" },
    { header: "MEMORY", field: "status.memoryBytes", format: "bytes" },
    { header: "CPU", field: "status.usage.cpu", format: "percent", wide: true },
    { header: "UPTIME", field: "status.uptimeSeconds", format: "duration", wide: true },
    { header: "TAGS", field: "status.tags", format: "list", wide: true },
  ],
  describe: [
    {
      title: "Virtual machine",
      fields: ["status.name", "spec.node", "status.phase", "status.startTime", "status.lock"],
    },
    { title: "Conditions", fields: ["status.conditions"] },
    { title: "Size", fields: ["status.cpus", "status.memoryBytes", "status.diskBytes", "status.usage"] },
    { title: "Hardware", fields: ["spec.cpu", "spec.memory", "spec.bios"] },
    { title: "Disks", fields: ["spec.disks"] },
    { title: "Networks", fields: ["spec.networks"] },
    {
      title: "Configuration",
      fields: [
        "spec.cloudInit",
        "spec.scheduling",
        "spec.template",
        "spec.config",
        "spec.microvm",
        "status.pending",
        "status.snapshots",
      ],
    },
  ],
  // After everything that a VM may name, and what its maker may do.
  applyOrder: 60,
  liveStatus: true,
};
