import { Type } from "typebox";
import { condition } from "../condition.ts";
import type { KindDeclaration } from "../kind.ts";
import { allOf, privilege, toRead } from "../permission.ts";

const read = privilege("/nodes/{name}", "Sys.Audit");
/** The answer shows the node, so it must be theirs to see. */
const change = allOf(read, privilege("/nodes/{name}", "Sys.Modify"));

const resources = Type.Object(
  {
    cpu: Type.Number(),
    memory: Type.Integer(),
    storage: Type.Record(Type.String(), Type.Integer()),
    gpus: Type.Integer(),
  },
  {
    description:
      "Bytes, of each storage too. Allocatable is capacity without the reserve, times overcommit; allocated is what running guests may use, and what storages hold.",
  },
);
const space = Type.Object({ total: Type.Integer(), used: Type.Integer(), free: Type.Integer() });

export const CapabilitySchema = Type.Object({
  name: Type.String(),
  available: Type.Boolean(),
  detail: Type.String(),
  fix: Type.Optional(Type.String({ description: "What a person can do about it." })),
});

export const nodeKind: KindDeclaration = {
  kind: "Node",
  plural: "nodes",
  aliases: ["node", "no"],
  scope: "cluster",
  description: "A machine that runs an agent.",
  spec: Type.Object(
    {
      taints: Type.Optional(
        Type.Array(
          Type.Union([
            Type.Object(
              {
                key: Type.String({ pattern: "^[A-Za-z0-9._/-]+$" }),
                value: Type.Optional(Type.String({ pattern: "^[A-Za-z0-9._-]*$" })),
                effect: Type.Enum(["NoSchedule", "PreferNoSchedule"]),
              },
              { additionalProperties: false },
            ),
            Type.String({
              pattern: "^[A-Za-z0-9._/-]+(=[A-Za-z0-9._-]*)?(:(NoSchedule|PreferNoSchedule))?$",
              description: "KEY, KEY=VALUE or KEY=VALUE:EFFECT; shown as the object it means.",
            }),
          ]),
          {
            uniqueItems: true,
            maxItems: 64,
            description: "Why the scheduler should avoid this node.",
          },
        ),
      ),
      unschedulable: Type.Optional(Type.Boolean({ description: "Nothing new is placed there." })),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    phase: Type.Enum(["Ready", "NotReady", "Unknown"]),
    conditions: Type.Array(condition),
    capacity: Type.Optional(resources),
    allocatable: Type.Optional(resources),
    allocated: Type.Optional(resources),
    systemInfo: Type.Optional(
      Type.Object({
        hostname: Type.String(),
        architecture: Type.String(),
        kernel: Type.String(),
        osImage: Type.String(),
        qemuVersion: Type.Optional(Type.String()),
        containerRuntime: Type.String({ description: "What runs containers; none where nothing does yet." }),
      }),
    ),
    health: Type.Enum(["online", "offline", "unknown"]),
    scheduling: Type.Enum(["open", "cordoned", "maintenance"], {
      description:
        "Whether new guests are placed there: not while it is cordoned (spec.unschedulable), or in maintenance under HA.",
    }),
    address: Type.String(),
    lastSeen: Type.Optional(Type.String({ format: "date-time" })),
    certificateFingerprint: Type.Optional(Type.String()),
    agentVersion: Type.Optional(Type.String()),
    agentProtocol: Type.Optional(
      Type.Integer({
        description:
          "What its agent and this server speak with each other. Absent: they share none (condition Compatible says why), or the agent is part of this server.",
      }),
    ),
    accelerator: Type.Optional(Type.Enum(["kvm", "tcg", "none"])),
    kernel: Type.Optional(Type.String()),
    osImage: Type.Optional(Type.String()),
    cpu: Type.Optional(
      Type.Object({
        model: Type.String(),
        sockets: Type.Integer(),
        cores: Type.Integer(),
        cpus: Type.Integer(),
      }),
    ),
    qemuVersion: Type.Optional(Type.String()),
    cgroupVersion: Type.Optional(Type.Integer()),
    usage: Type.Optional(
      Type.Object({
        cpu: Type.Number({ description: "0 to 1 over all CPUs." }),
        loadavg: Type.Array(Type.Number()),
        memory: space,
        swap: space,
        rootfs: space,
        uptimeSeconds: Type.Number(),
      }),
    ),
    bridges: Type.Optional(Type.Array(Type.String())),
    gpus: Type.Optional(
      Type.Array(
        Type.Object({
          uuid: Type.String(),
          model: Type.String(),
          memoryBytes: Type.Integer(),
          driver: Type.String(),
        }),
      ),
    ),
    devices: Type.Optional(
      Type.Array(Type.Object({ kind: Type.String(), count: Type.Integer() }), {
        description:
          "What is described on it for containers (CDI), which workers of virtual clusters can have.",
      }),
    ),
    capabilities: Type.Optional(Type.Array(CapabilitySchema)),
  }),
  namePattern: "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$",
  permissions: {
    ...toRead(read),
    replace: change,
    patch: change,
    // As for inviting one.
    delete: allOf(read, privilege("/", "Sys.Modify"), privilege("/nodes", "Sys.Modify")),
  },
  forcedDelete: "1 = also when the node has guests; they run on there, and their configurations are kept.",
  selectableFields: ["status.phase", "status.health", "status.scheduling", "status.accelerator"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "PHASE", field: "status.phase" },
    { header: "SCHEDULING", field: "status.scheduling" },
    { header: "ADDRESS", field: "status.address" },
    { header: "CPUS", field: "status.cpu.cpus" },
    { header: "CPU", field: "status.usage.cpu", format: "percent" },
    { header: "MEMORY", field: "status.usage.memory.used", format: "bytes" },
    { header: "ACCEL", field: "status.accelerator" },
    { header: "VERSION", field: "status.agentVersion" },
    { header: "PROTOCOL", field: "status.agentProtocol", wide: true },
    { header: "KERNEL", field: "status.kernel", wide: true },
    { header: "UPTIME", field: "status.usage.uptimeSeconds", format: "duration", wide: true },
  ],
  describe: [
    { title: "Machine", fields: ["status.osImage", "status.kernel", "status.cpu", "status.qemuVersion"] },
    { title: "State", fields: ["status.phase", "status.address", "status.lastSeen", "status.usage"] },
    { title: "Agent", fields: ["status.agentVersion", "status.agentProtocol"] },
    { title: "Conditions", fields: ["status.conditions"] },
    { title: "Resources", fields: ["status.capacity", "status.allocatable", "status.allocated"] },
    { title: "Capabilities", fields: ["status.capabilities"] },
    { title: "Placement", fields: ["spec.unschedulable", "spec.taints"] },
  ],
  applyOrder: 10,
  liveStatus: true,
};
