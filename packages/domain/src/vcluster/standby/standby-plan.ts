// What is to be done next about the standby of a cluster, from what its record says and what nodes tell. Done again it says
// the same, until what it said has come about.
import type { StandbyRuntime } from "../vcluster-runtime.ts";
import type { ClusterStandby } from "./standby.ts";

export interface SeenStandby {
  /** The node that has the cluster. */
  readonly node: string;
  readonly isOnline: boolean;
  /** For how long it has been away, with its store heard of or not. */
  readonly awayMs: number;
  /** And nothing on it gives a sign of life: it is not only its agent that is away. */
  readonly isSilent: boolean;
  /** It has the cluster, and that is up. */
  readonly isUp: boolean;
  /** It was at rest when it was last heard of: nobody misses it. */
  readonly isAtRest: boolean;
  /** What it tells of the standby. */
  readonly told: StandbyRuntime | undefined;
  /** For how long what it tells has been as it is: joined or not, connected or not. */
  readonly toldMs: number;
  readonly standby: ClusterStandby | undefined;
  readonly isStandbyOnline: boolean;
  /** And it tells that it has it. */
  readonly isStandbyThere: boolean;
  /** And that it hears the store that it follows: that runs, whoever is away. */
  readonly isFed: boolean;
  readonly standbyAwayMs: number;
  /** For how long the record has been as it is, or since its nodes were last told. */
  readonly saidMs: number;
  /** Nodes that could have the standby, the best first. */
  readonly spares: readonly string[];
}

export type StandbyStep =
  /** A standby on that node, from the beginning. */
  | { readonly do: "begin"; readonly node: string }
  /** Nobody follows any more. */
  | { readonly do: "drop" }
  /** What holds is said again to both, or to the node that has the cluster. */
  | { readonly do: "tell"; readonly both: boolean }
  /** It is in sync: from now on the cluster can go on from it. */
  | { readonly do: "joined" }
  /** The cluster goes on without it: from now on it cannot go on from it. */
  | { readonly do: "solo" }
  /** It is there again. */
  | { readonly do: "resume" }
  | { readonly do: "recover"; readonly to: string };

/** An agent that is restarted, on a node that lives, is back by then; one whose stores are heard of is waited for. */
export const LOST_AFTER_MS = 60_000;
/** Writes wait so long for a standby that is away. */
export const SOLO_AFTER_MS = 5_000;
/** What was said and has not come about is said again. */
export const TELL_AGAIN_MS = 10_000;

export function nextStandbyStep(seen: SeenStandby): StandbyStep | undefined {
  const { standby, node } = seen;
  if (standby !== undefined && standby.of !== node) return { do: "drop" };
  if (!seen.isOnline) return recovery(seen);
  if (!seen.isUp) return waitingStart(seen);
  if (standby === undefined) return begin(seen);
  const isLost = !seen.isStandbyOnline && seen.standbyAwayMs >= LOST_AFTER_MS;
  const { told } = seen;
  if (told?.generation !== standby.generation)
    return seen.saidMs >= TELL_AGAIN_MS ? { do: "tell", both: standby.mode === "stream" } : undefined;
  if (standby.mode === "solo") {
    if (isLost) return begin(seen);
    return seen.isStandbyOnline && seen.saidMs >= TELL_AGAIN_MS ? { do: "resume" } : undefined;
  }
  if (told.isJoined) {
    if (told.isConnected) return standby.inSync ? undefined : { do: "joined" };
    return seen.toldMs >= SOLO_AFTER_MS ? { do: "solo" } : undefined;
  }
  if (isLost) return begin(seen);
  const isStuck = !told.isConnected && seen.saidMs >= TELL_AGAIN_MS;
  return isStuck && seen.isStandbyOnline ? { do: "tell", both: true } : undefined;
}

/** One that has joined does not come up before its standby has been asked; where that is away, it is told to. */
function waitingStart({ standby, told, toldMs }: SeenStandby): StandbyStep | undefined {
  const waits =
    standby?.mode === "stream" &&
    told?.generation === standby.generation &&
    told.isJoined &&
    !told.isConnected &&
    toldMs >= SOLO_AFTER_MS;
  return waits ? { do: "solo" } : undefined;
}

function begin({ standby, spares }: SeenStandby): StandbyStep | undefined {
  const node = spares.find((each) => each !== standby?.node);
  return node === undefined ? undefined : { do: "begin", node };
}

function recovery(seen: SeenStandby): StandbyStep | undefined {
  const { standby, awayMs, isSilent, isStandbyThere, isFed, isAtRest } = seen;
  // Its line outlives its agent: what is written is confirmed, and nobody is helped by another node.
  const isLost = isSilent || (awayMs >= LOST_AFTER_MS && !isFed);
  if (standby?.inSync !== true || !isStandbyThere || isAtRest || !isLost) return undefined;
  return { do: "recover", to: standby.node };
}
