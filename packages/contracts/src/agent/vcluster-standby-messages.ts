// Standbys of virtual clusters' stores, as servers and agents say it.
import { Type } from "typebox";
import { request, requestId, tenant } from "./message-parts.ts";
import { OverlaySchema } from "./vcluster-move-messages.ts";
import { vclusterCalled as called, vclusterKey as vcluster } from "./vcluster-names.ts";

/** Rises with everything that is said about the standby of a cluster. */
const generation = Type.Integer({ minimum: 1 });

/** Said to the node that has the cluster: how its store goes with its standby. */
export const VclusterLeadRequest = request({
  vcluster,
  tenant,
  generation,
  mode: Type.Union([Type.Literal("stream"), Type.Literal("solo")]),
  /** What may be answered before the standby has it, in time. */
  boundMs: Type.Integer({ minimum: 0, maximum: 60_000 }),
});
/** Asked of it: what the other node needs. */
export const VclusterStandbyKeysAnswer = Type.Object({
  version: Type.String(),
  /** Of its etcd, where it has one. */
  etcdVersion: Type.Optional(Type.String()),
  secrets: Type.Record(Type.String(), Type.String()),
});
/** By which its workers on other nodes know it. */
const network = Type.Optional(Type.Integer({ minimum: 0, maximum: 4095 }));

/** Said to the node that is to have the standby. */
export const VclusterFollowRequest = request({
  vcluster,
  called,
  tenant,
  generation,
  network,
  spec: Type.Record(Type.String(), Type.Unknown()),
  version: Type.String(),
  etcdVersion: Type.Optional(Type.String()),
  secrets: Type.Record(Type.String(), Type.String()),
  requestId,
});
export const VclusterStandbyRequest = request({ vcluster, tenant });
/** It goes on there, as it is wanted now. */
export const VclusterPromoteRequest = request({
  vcluster,
  tenant,
  spec: Type.Record(Type.String(), Type.Unknown()),
  /** Of one whose workers are on several nodes. */
  network,
  overlay: Type.Optional(OverlaySchema),
  requestId,
});
