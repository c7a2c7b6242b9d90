// What a container takes of its tenant's quota, as its configuration says it. Without `cores` it may use every core of
// its node and is counted with one: a tenant that is bounded by cores gives its containers a number.
import { add, bytesOn, NOTHING, type Amounts } from "../quota/amounts.ts";
import type { GuestKeys } from "../guest/guest-kind.ts";
import { parseVolumeId } from "../storage/volume-id.ts";

const MIB = 1024 ** 2;
const DEFAULT_MEMORY_MIB = 512;
const UNITS: Readonly<Record<string, number>> = { "": 1, K: 1024, M: MIB, G: 1024 ** 3, T: 1024 ** 4 };

export function ctDemand(keys: GuestKeys): Amounts {
  const volumes = [...keys].flatMap(([key, text]) =>
    /^(?:rootfs|mp\d+)$/.test(key) ? [volumeOf(text)] : [],
  );
  const stored = add(...volumes);
  if (keys.get("template") === "1") return stored;
  const gpuCount = [...keys.keys()].filter((key) => /^dev\d+$/.test(key)).length;
  return add(stored, {
    cpu: Number(keys.get("cores") ?? 1),
    memory: Number(keys.get("memory") ?? DEFAULT_MEMORY_MIB) * MIB,
    ctCount: 1,
    ...(gpuCount === 0 ? {} : { gpuCount }),
  });
}

function volumeOf(text: string): Amounts {
  const storage = parseVolumeId(text.split(",", 1)[0]?.replace(/^volume=/, "") ?? "")?.storage;
  const [, digits, unit = ""] = /(?:^|,)size=(\d+(?:\.\d+)?)([KMGT]?)/.exec(text) ?? [];
  if (storage === undefined || digits === undefined) return NOTHING;
  return bytesOn(storage, Math.round(Number(digits) * (UNITS[unit] ?? 1)));
}
