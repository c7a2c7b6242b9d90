// What a request says of the workers of a virtual cluster, and of pools of them.
import { Type } from "typebox";

export const closed = { additionalProperties: false };
export const sizes = (cpu: string, memory: string) =>
  Type.Optional(
    Type.Object(
      {
        cpu: Type.Optional(Type.Union([Type.String(), Type.Number()], { description: cpu })),
        memory: Type.Optional(Type.Union([Type.String(), Type.Integer()], { description: memory })),
      },
      closed,
    ),
  );
export const resources = sizes(
  "Of each worker: 2 or 500m; default 2.",
  "Of each worker: 2Gi, or bytes; default 2Gi.",
);
export const labels = Type.Record(Type.String(), Type.String());
export const devices = Type.Record(Type.String(), Type.Integer({ minimum: 0, maximum: 64 }), {
  description:
    'Devices of its node that each worker has for its pods alone, by kind: {"nvidia.com/gpu": 1}. The node\'s administrator has described them (CDI). Level L1; needs Sys.Modify and Sys.Console on /.',
});
export const pools = Type.Array(
  Type.Object(
    {
      name: Type.String({ description: "Its workers are called NAME-1 and so on." }),
      count: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000, default: 1 })),
      resources,
      devices: Type.Optional(devices),
      labels: Type.Optional({ ...labels, description: "That each of its workers has in the cluster." }),
      taints: Type.Optional(
        Type.Array(
          Type.Object(
            {
              key: Type.String(),
              value: Type.Optional(Type.String()),
              effect: Type.Optional(
                Type.Enum(["NoSchedule", "PreferNoSchedule", "NoExecute"], { default: "NoSchedule" }),
              ),
            },
            closed,
          ),
          { description: "That keep pods off which do not tolerate them." },
        ),
      ),
    },
    closed,
  ),
  { description: "Workers beside those of the count, with sizes, labels and taints of their own." },
);
