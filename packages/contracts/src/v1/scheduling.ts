// Where something shall go, as VirtualMachines and others say it in spec.scheduling.
import { Type } from "typebox";
import type { TSchema } from "typebox";

const closed = { additionalProperties: false } as const;
const MOST_TERMS = 16;

const selector = (description: string) => Type.String({ description, maxLength: 1024 });
const topologyKey = Type.Optional(
  Type.String({
    description: "Nodes with the same value of this label are one place; left out: every node is one.",
    pattern: "^[A-Za-z0-9]([A-Za-z0-9._/-]{0,314}[A-Za-z0-9])?$",
  }),
);
const weight = Type.Integer({ minimum: 1, maximum: 100 });
const guests = selector(
  "Label selector of guests: app=db. Besides their labels they have gpve.io/vmid, gpve.io/name, gpve.io/kind, gpve.io/tenant and tag.gpve.io/TAG.",
);
const list = <T extends TSchema>(item: T, description: string) =>
  Type.Optional(Type.Array(item, { maxItems: MOST_TERMS, description }));

const term = Type.Object({ guests, topologyKey }, closed);
const weightedTerm = Type.Object({ guests, topologyKey, weight }, closed);
const affinity = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        required: list(term, "Each must hold."),
        preferred: list(weightedTerm, "Each counts with its weight."),
      },
      { ...closed, description },
    ),
  );

export const STRATEGY_NAMES = ["balanced", "ha-spread", "utilization", "gpu-aware", "latency"] as const;

export const LEAST_PRIORITY = -1000;
export const MOST_PRIORITY = 1000;

export const schedulingFields = {
  strategy: Type.Optional(
    Type.Enum([...STRATEGY_NAMES], { description: "Instead of the cluster's default (server.yaml)." }),
  ),
  priority: Type.Optional(
    Type.Integer({
      minimum: LEAST_PRIORITY,
      maximum: MOST_PRIORITY,
      description: "Who waits for room is served in this order.",
    }),
  ),
  waitSeconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 3600,
      description: "How long to wait for room; 0 = refused at once.",
    }),
  ),
  nodeAffinity: Type.Optional(
    Type.Object(
      {
        required: list(selector("Label selector of nodes: disk=ssd."), "One of them must match."),
        preferred: list(
          Type.Object({ nodes: selector("Label selector of nodes."), weight }, closed),
          "Each counts with its weight.",
        ),
      },
      closed,
    ),
  ),
  affinity: affinity("With which guests."),
  antiAffinity: affinity("Apart from which guests; they keep away from it too."),
  tolerations: list(
    Type.Object(
      {
        key: Type.Optional(Type.String({ maxLength: 316 })),
        operator: Type.Optional(Type.Enum(["Equal", "Exists"])),
        value: Type.Optional(Type.String({ maxLength: 253 })),
        effect: Type.Optional(Type.Enum(["NoSchedule", "PreferNoSchedule"])),
      },
      closed,
    ),
    "Taints of nodes that do not keep it away.",
  ),
  spread: list(
    Type.Object(
      {
        topologyKey,
        maxSkew: Type.Integer({ minimum: 1, maximum: 1000 }),
        guests: Type.Optional(guests),
        whenUnsatisfiable: Type.Optional(Type.Enum(["DoNotSchedule", "ScheduleAnyway"])),
      },
      closed,
    ),
    "How evenly guests (those of its tenant, where nothing is said) are spread over places.",
  ),
  topologyKey,
  maxSkew: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, description: "Of ha-spread: by how much places may differ." }),
  ),
  utilizationThreshold: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 100,
      description: "Of utilization: percent of a node filled before the next.",
    }),
  ),
  gpuType: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: "A part of the GPU's model: A100." }),
  ),
  gpuCount: Type.Optional(Type.Integer({ minimum: 1, maximum: 64, description: "GPUs that must be free." })),
  maxHops: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 16,
      description: "Of latency: how far from the guests of `near`, in levels of topology.gpve.io/* labels.",
    }),
  ),
  near: Type.Optional(selector("Of latency: label selector of guests; left out: those of its tenant.")),
};

/** What virtual clusters say too. They do not wait for room, have no GPUs, and mean something of their own by `spread`. */
const { spread: _rules, waitSeconds: _wait, priority: _turn, ...placing } = schedulingFields;
const { gpuType: _type, gpuCount: _count, ...vcFields } = placing;
export const vcSchedulingFields = vcFields;

/** For bodies that have nothing else. */
export const SchedulingSchema = Type.Object(schedulingFields, closed);
