// Settings of a VM that somebody mistyped.
import { isAppError } from "@gpve/contracts/errors.ts";
import { nearest } from "./nearest.ts";

const UNKNOWN = /^property is not defined in schema/;

/** "Did you mean memory?", when the server did not know a setting and one of Proxmox's is near. */
export async function meantSettings(err: unknown): Promise<string | undefined> {
  if (!isAppError(err)) return undefined;
  const unknown = Object.entries(err.errors ?? {}).flatMap(([name, text]) =>
    UNKNOWN.test(text) ? [name] : [],
  );
  if (unknown.length === 0) return undefined;
  // Large, and only wanted here.
  const { methodByKey } = await import("@gpve/domain/schema/method-table.ts");
  const known = Object.keys(methodByKey("POST /nodes/{node}/qemu")?.parameters ?? {});
  const meant = unknown.flatMap((name) => {
    const number = /\d+$/.exec(name)?.[0] ?? "0";
    const numbered = known.map((each) => each.replace("[n]", number));
    return nearest(name, numbered) ?? [];
  });
  return meant.length === 0 ? undefined : `Did you mean ${meant.join(" and ")}?`;
}
