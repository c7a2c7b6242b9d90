// Which image a machine runs: factories put the schematic's id among its extensions, as one that does nothing.
import { isObject } from "@gpve/client/response-error.ts";
import type { TalosMachine } from "../../client/talos-client.ts";
import { asked } from "../asked.ts";

/** undefined: no factory made it, or the machine does not tell. */
export async function schematicIn(client: Pick<TalosMachine, "resources">): Promise<string | undefined> {
  const found = await asked(() => client.resources("runtime", "ExtensionStatuses.runtime.talos.dev"));
  for (const status of found?.values() ?? []) {
    const metadata = isObject(status) && isObject(status["metadata"]) ? status["metadata"] : {};
    const { name, version } = metadata;
    if (name === "schematic" && typeof version === "string" && version !== "") return version;
  }
  return undefined;
}
