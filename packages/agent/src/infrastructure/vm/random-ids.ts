import { createHash, randomUUID } from "node:crypto";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import { newMac } from "./new-mac.ts";

export function randomIds(macPrefix: () => string | undefined): Ids {
  return {
    newUuid: randomUUID,
    newMac: () => newMac(macPrefix()),
    sha256Hex: (text) => createHash("sha256").update(text).digest("hex"),
  };
}
