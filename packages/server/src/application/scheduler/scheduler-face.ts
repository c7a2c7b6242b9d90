// What faces offer of the scheduler.
import type { ExplainPlacement } from "./explain-placement.ts";
import type { ExplainCluster } from "../vcluster/explain-cluster.ts";
import type { PlaceGuest } from "./place-guest.ts";

export interface SchedulerFace {
  readonly explain: Pick<ExplainPlacement, "guest" | "place" | "nodeLoss">;
  readonly clusters: Pick<ExplainCluster, "story">;
  readonly guests: Pick<PlaceGuest, "keep">;
}
