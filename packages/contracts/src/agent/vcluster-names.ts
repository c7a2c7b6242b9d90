// By what servers and agents speak of a virtual cluster.
import { Type } from "typebox";

/** The key that it was given, which is its name or begins with a digit. */
export const vclusterKey = Type.String({ pattern: "^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$" });
/** Its name in its tenant, where that is not its key. */
export const vclusterCalled = Type.Optional(Type.String({ pattern: "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$" }));
