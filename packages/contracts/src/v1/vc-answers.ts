// What is answered of a virtual cluster beside its object.
import { Type } from "typebox";
import { VclusterBackupsAnswer } from "../agent/vcluster-save-messages.ts";
import type { Static } from "typebox";

const closed = { additionalProperties: false } as const;

export const MappedPodSchema = Type.Object(
  {
    vcluster: Type.String(),
    tenant: Type.String(),
    namespace: Type.String(),
    pod: Type.String(),
    vnode: Type.String({ description: "The worker that it runs on." }),
    node: Type.String({ description: "The node that the worker is on." }),
    nodeUsage: Type.Optional(
      Type.Object(
        {
          cpu: Type.Number({ description: "Share of all CPUs, 0 to 1." }),
          memoryUsedBytes: Type.Integer(),
          memoryTotalBytes: Type.Integer(),
          load: Type.Array(Type.Number(), {
            minItems: 3,
            maxItems: 3,
            description: "Of the last minute, five and fifteen.",
          }),
        },
        { ...closed, description: "How busy the node is, as it told last." },
      ),
    ),
  },
  closed,
);
export type MappedPod = Static<typeof MappedPodSchema>;

export const MappedPodsSchema = Type.Object({ pods: Type.Array(MappedPodSchema) }, closed);

const ClusterEventSchema = Type.Object(
  {
    type: Type.Enum(["Normal", "Warning"]),
    reason: Type.String({ description: "One word, such as VCRunning." }),
    message: Type.String(),
    node: Type.Optional(Type.String()),
    count: Type.Integer({ description: "How often it was seen." }),
    firstAt: Type.String({ format: "date-time" }),
    lastAt: Type.String({ format: "date-time" }),
  },
  closed,
);
export type ClusterEvent = Static<typeof ClusterEventSchema>;

export const ClusterEventsSchema = Type.Object({ events: Type.Array(ClusterEventSchema) }, closed);

export const ClusterBackupsSchema = Type.Object(
  {
    backups: VclusterBackupsAnswer,
    away: Type.Optional(
      Type.Array(Type.String(), {
        description: "Storages that cannot be looked at now: what they have is not among the backups.",
      }),
    ),
  },
  closed,
);

export const ClusterLinesSchema = Type.Object({ lines: Type.Array(Type.String()) }, closed);
