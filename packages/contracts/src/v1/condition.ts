import { Type } from "typebox";

/** One thing that is so or not, of any kind of object. */
export const condition = Type.Object({
  type: Type.String(),
  status: Type.Enum(["True", "False", "Unknown"]),
  reason: Type.String({ description: "One word." }),
  message: Type.Optional(Type.String()),
  lastTransitionTime: Type.Optional(Type.String({ format: "date-time" })),
});
