// Which replica of a control plane is replaced, and by whom: one at a time, and only while the others have the majority, for
// without it the store takes nobody in.

export interface SeenReplica {
  readonly node: string;
  /** well: it serves. lost: its node is away. missing: its node is there and has nothing of it. busy: neither. */
  readonly state: "well" | "lost" | "missing" | "busy";
  /** For how long it has been so. */
  readonly forMs: number;
}

export interface Replacement {
  readonly lost: string;
  readonly by: string;
}

/** A node that boots is back by then, and costs the others nothing: it goes on with what it has. */
export const REPLACED_AFTER_MS = 60_000;

/** `spares`: nodes without a replica that could have one, the best first. undefined = nothing is to be done now. */
export function nextReplacement(
  replicas: readonly SeenReplica[],
  spares: readonly string[],
): Replacement | undefined {
  const away = replicas.filter(({ state }) => state === "lost" || state === "missing");
  const well = replicas.filter(({ state }) => state === "well");
  const [gone] = away.filter(({ forMs }) => forMs >= REPLACED_AFTER_MS).toSorted((a, b) => b.forMs - a.forMs);
  if (gone === undefined || well.length * 2 <= replicas.length) return undefined;
  // One that came back with empty hands is as good as another, and is there.
  const by = gone.state === "missing" ? gone.node : spares[0];
  return by === undefined ? undefined : { lost: gone.node, by };
}
