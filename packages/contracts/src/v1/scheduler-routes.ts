// What /api/v1 offers of the scheduler. Part of `fixedRoutes`.
import { Type } from "typebox";
import { virtualMachineKind } from "./kinds/virtual-machine.ts";
import { authenticated, privilege } from "./permission.ts";
import { SchedulingSchema } from "./scheduling.ts";

const closed = { additionalProperties: false } as const;

export const SimulatePlaceSchema = Type.Object(
  {
    kind: Type.Optional(Type.Enum(["vm", "ct", "vc"])),
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "So many alike." })),
    cpu: Type.Optional(Type.Number({ minimum: 0, maximum: 4096 })),
    memoryBytes: Type.Optional(Type.Integer({ minimum: 0 })),
    storage: Type.Optional(
      Type.Record(Type.String(), Type.Integer({ minimum: 0 }), {
        description: "Bytes on each storage; 0 = it must be reachable.",
      }),
    ),
    bridges: Type.Optional(Type.Array(Type.String(), { maxItems: 32 })),
    labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    tenant: Type.Optional(Type.String()),
    scheduling: Type.Optional(SchedulingSchema),
  },
  closed,
);

export const SimulateNodeLossSchema = Type.Object(
  { nodes: Type.Array(Type.String(), { minItems: 1, maxItems: 1000 }) },
  closed,
);

/** What a VM shall be, so that its place is kept until it is made there. */
export const ReservePlaceSchema = Type.Object(
  {
    vmid: Type.Integer({ minimum: 100, maximum: 999_999_999 }),
    config: Type.Record(Type.String({ pattern: "^[a-z][a-z0-9_-]*$" }), Type.String({ maxLength: 65_536 }), {
      description: "Keys of its configuration, as POST /nodes/{node}/qemu takes them.",
    }),
    tenant: Type.Optional(Type.String()),
    starts: Type.Optional(Type.Boolean({ description: "It will run as soon as it is made." })),
    scheduling: Type.Optional(SchedulingSchema),
  },
  closed,
);

export const schedulerRoutes = [
  {
    operationId: "explainVmPlacement",
    method: "GET",
    path: "/virtualmachines/{name}/placement",
    summary:
      "Why a VM is where it is: what was decided when it was placed, what would be decided now, which rules do not hold. Nodes are named to who has Sys.Audit on /nodes",
    permission: privilege("/vms/{name}", "VM.Audit"),
    on: virtualMachineKind,
    audit: "none",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "reservePlace",
    method: "POST",
    path: "/placements",
    summary:
      "Finds a node for a VM that is about to be made, and keeps its place for a quarter of an hour; needs VM.Allocate on the VM or the pool",
    // Or on the pool, as PVE asks for it; both are in the body.
    permission: authenticated,
    audit: "write",
    body: ReservePlaceSchema,
    response: { status: 201, schema: "any" },
  },
  {
    operationId: "simulatePlace",
    method: "POST",
    path: "/simulate/place",
    summary: "Where something would be placed, and why; changes nothing",
    permission: privilege("/nodes", "Sys.Audit"),
    audit: "none",
    body: SimulatePlaceSchema,
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "simulateNodeLoss",
    method: "POST",
    path: "/simulate/node-loss",
    summary:
      "Where HA would start guests again if nodes were lost, which would find no place, and which stay down; changes nothing",
    permission: privilege("/nodes", "Sys.Audit"),
    audit: "none",
    body: SimulateNodeLossSchema,
    response: { status: 200, schema: "any" },
  },
] as const;
