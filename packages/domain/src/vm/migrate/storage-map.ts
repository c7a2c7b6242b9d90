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

/** `1`, `store`, or `a:b,c:d`, also mixed; throws PVE's texts. */
export function parseStorageMap(text: string): StorageMap {
  const entries = new Map<string, string>();
  let fallback: string | undefined;
  let identity = false;
  const bad = (why: string): Error => parameterError({ targetstorage: why });
  for (const part of text.split(/[\s,;]+/).filter((each) => each !== "")) {
    const [from = "", to, ...rest] = part.split(":");
    if (rest.length > 0) throw bad(`failed to parse pair '${part}'`);
    if (to === undefined) {
      if (fallback !== undefined || identity) throw bad("more than one default target storage");
      if (from === "1") identity = true;
      else fallback = from;
      continue;
    }
    if (from === "" || to === "") throw bad(`failed to parse pair '${part}'`);
    if (entries.has(from)) throw bad(`storage '${from}' is mapped twice`);
    entries.set(from, to);
  }
  if (identity && entries.size > 0) throw bad("identity map cannot be combined with others");
  return {
    ...(identity ? { identity: true as const } : {}),
    ...given({ default: fallback }),
    entries,
  };
}

export function mapStorage(map: StorageMap, storage: string): string {
  return map.entries.get(storage) ?? map.default ?? storage;
}
