// `targetstorage`: where volumes of a VM go at the node it moves to.
import { given } from "@gpve/contracts/given.ts";
import { parameterError } from "../../request/failures.ts";

export interface StorageMap {
  /** Every storage keeps its name. */
  readonly identity?: true;
  /** For all that `entries` do not name. */
  readonly default?: string;
  readonly entries: ReadonlyMap<string, string>;
}

/** The parameter that a map comes in, and what it is of. */
export interface MapParameter {
  readonly name: string;
  readonly of: "storage" | "bridge";
}

const TARGET_STORAGE: MapParameter = { name: "targetstorage", of: "storage" };

/** `1`, `store`, or `a:b,c:d`, also mixed; throws PVE's texts. */
export function parseStorageMap(text: string, { name, of } = TARGET_STORAGE): StorageMap {
  const entries = new Map<string, string>();
  let fallback: string | undefined;
  let identity = false;
  const bad = (why: string): Error => parameterError({ [name]: `failed to parse ${of} map: ${why}` });
  for (const part of text.split(/[\s,;]+/).filter((each) => each !== "")) {
    if (part === "1") {
      identity = true;
      continue;
    }
    const [from = "", to, ...rest] = part.split(":");
    if (from === "" || to === "" || rest.length > 0) throw bad(`entry '${part}' contains invalid ID`);
    if (to === undefined) {
      if (fallback !== undefined) throw bad("default target ID can only be provided once");
      fallback = from;
      continue;
    }
    if (entries.has(from)) throw bad(`duplicate mapping for source '${from}'`);
    entries.set(from, to);
  }
  if (identity && (fallback !== undefined || entries.size > 0))
    throw bad("identity mapping cannot be combined with other mappings");
  return {
    ...(identity ? { identity: true as const } : {}),
    ...given({ default: fallback }),
    entries,
  };
}

export function mapStorage(map: StorageMap, storage: string): string {
  return map.entries.get(storage) ?? map.default ?? storage;
}
