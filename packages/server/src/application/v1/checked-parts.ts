// Whether what the server needs works.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Health } from "@gpve/contracts/v1/bodies.ts";

export function checkedParts(
  parts: Readonly<Record<string, () => Promise<unknown>>>,
): Promise<Health["checks"]> {
  return Promise.all(
    Object.entries(parts).map(async ([name, works]) => {
      try {
        await works();
        return { name, ok: true };
      } catch (err) {
        return { name, ok: false, detail: messageOf(err) };
      }
    }),
  );
}
