// What the server takes where a request does not say. PVE's methods want names, so they are asked for first.
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";

export interface ServerDefaults {
  readonly vmDisk: string;
  readonly iso: string;
  readonly backup: string;
  readonly bridge: string | undefined;
}

export async function serverDefaults(client: GpveClient, node: string): Promise<ServerDefaults> {
  // An older server does not tell.
  const answer = await client.v1
    .raw("GET", `defaults?node=${encodeURIComponent(node)}`)
    .catch((): unknown => undefined);
  const { storage, bridge } = isObject(answer) ? answer : {};
  const name = (use: string): string => {
    const found = isObject(storage) ? storage[use] : undefined;
    return typeof found === "string" ? found : "local";
  };
  return {
    vmDisk: name("vmDisk"),
    iso: name("iso"),
    backup: name("backup"),
    bridge: typeof bridge === "string" ? bridge : undefined,
  };
}
