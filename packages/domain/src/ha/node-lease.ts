// The lease of a node on its HA-managed guests, and the times that fencing stands on.
//
//   renewed at t0 ──────────── stopMs ── watchdogMs ─────── leaseMs ────>
//                              guests end  machine resets    others may take it
//
// A renewal is a write that a quorum confirmed, and its time is taken before it was asked for. Whoever wants the lease
// must have seen no renewal for leaseMs by a clock of his own, and takes it by comparing the revision that he saw: no
// two clocks are ever compared, and an answer that is late is worth less, never more.

export interface NodeLease {
  readonly node: string;
  /** `nobody`: no guest under HA runs there, or may be started. `manager`: its guests are somebody else's now. */
  readonly holder: "node" | "manager" | "nobody";
  /** Rises whenever the holder changes. */
  readonly token: number;
  /** Rises with every renewal: a sign of life also of nodes that hold nothing. */
  readonly beat: number;
  /** For people: when it was last written, by the writer's clock. */
  readonly at: number;
}

export const leaseTimes = {
  /** A sign of life is written that often. */
  renewMs: 2_000,
  /** Without one for so long a node counts as away. */
  awayMs: 5_500,
  /** Its guests have ended by then, counted from before the last renewal was asked for. */
  stopMs: 8_000,
  /** And its machine is reset by then, if it has a watchdog. */
  watchdogMs: 9_000,
  /** Nobody takes the lease before. */
  leaseMs: 13_000,
} as const;

export const leaseCollection = { prefix: "/gpve/ha/leases/", decode: decodeLease };

/** A node may write below its own name only. */
export function leaseId(node: string): string {
  return `${node}/lease`;
}

export function leaseKey(node: string): string {
  return `${leaseCollection.prefix}${leaseId(node)}`;
}

export function decodeLease(json: unknown): NodeLease {
  const { node, holder, token, beat, at } = (json ?? {}) as Partial<NodeLease>;
  if (typeof node !== "string" || typeof token !== "number" || typeof beat !== "number")
    throw new Error("a stored lease of a node has a shape this version does not know");
  if (holder !== "node" && holder !== "manager" && holder !== "nobody")
    throw new Error(`a stored lease of node ${node} has an unknown holder`);
  return { node, holder, token, beat, at: typeof at === "number" ? at : 0 };
}

/** What a node writes next: a sign of life, and the lease where it wants it and may have it. */
export function nextLease(
  node: string,
  stored: NodeLease | undefined,
  wish: { readonly hold: boolean; readonly mayTake: boolean },
  at: number,
): NodeLease {
  const before = stored ?? { node, holder: "nobody", token: 0, beat: 0 };
  const beat = before.beat + 1;
  const holds = before.holder === "node";
  if (wish.hold && !holds && wish.mayTake) return { node, holder: "node", token: before.token + 1, beat, at };
  if (!wish.hold && holds) return { node, holder: "nobody", token: before.token + 1, beat, at };
  return { node, holder: before.holder, token: before.token, beat, at };
}

/** What the manager writes to prove that nothing runs there. The sign of life stays as it is: it was not one. */
export function takenLease(node: string, stored: NodeLease | undefined, at: number): NodeLease {
  return { node, holder: "manager", token: (stored?.token ?? 0) + 1, beat: stored?.beat ?? 0, at };
}

/** Whether the manager may take it, having seen it unchanged for that long. */
export function mayBeTaken(stored: NodeLease | undefined, unchangedMs: number): boolean {
  return stored === undefined || stored.holder !== "node" || unchangedMs >= leaseTimes.leaseMs;
}
