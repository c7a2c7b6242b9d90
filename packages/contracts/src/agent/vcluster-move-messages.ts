// Moves of virtual clusters' control planes, as servers and agents say it.
import { Type } from "typebox";
import { request, requestId, tenant } from "./message-parts.ts";
import { vclusterCalled as called, vclusterKey as vcluster } from "./vcluster-names.ts";

const moveId = Type.String({ minLength: 1 });
const network = Type.Integer({ minimum: 0, maximum: 4095 });
const place = Type.Integer({ minimum: 0, maximum: 31 });

/** The nodes of a cluster that is on several, and which of them this is. */
export const OverlaySchema = Type.Object(
  {
    nodes: Type.Array(
      Type.Object(
        {
          node: Type.String(),
          address: Type.String(),
          /** Of the replica of the control plane that it has. */
          slot: Type.Optional(Type.Integer({ minimum: 0, maximum: 7 })),
          /** It has this place beside its own: who had it is lost. */
          standsIn: Type.Optional(Type.Boolean()),
        },
        { additionalProperties: false },
      ),
      { minItems: 2, maxItems: 32 },
    ),
    at: place,
    /** Which of them has the control plane; the first unless said. */
    home: Type.Optional(place),
    /** How many of them have workers; all unless said. */
    dealt: Type.Optional(Type.Integer({ minimum: 0, maximum: 32 })),
    /** Workers that are elsewhere than they were dealt to, by their places. */
    moved: Type.Optional(
      Type.Array(
        Type.Object(
          { slot: Type.Integer({ minimum: 0, maximum: 999 }), node: Type.String() },
          { additionalProperties: false },
        ),
        { maxItems: 1000 },
      ),
    ),
  },
  { additionalProperties: false },
);

export const VclusterPlaceRequest = request({ vcluster, tenant });
export const VclusterPlaceAnswer = Type.Object({
  phase: Type.String(),
  version: Type.String(),
  etcdVersion: Type.Optional(Type.String()),
  network: Type.Optional(network),
  workers: Type.Integer({ minimum: 0, description: "Those that are on this node." }),
});

/** Said to the node that is to have it, before anything is sent. */
export const VclusterArriveRequest = request({
  vcluster,
  called,
  tenant,
  moveId,
  spec: Type.Record(Type.String(), Type.Unknown()),
  version: Type.String(),
  etcdVersion: Type.Optional(Type.String()),
  /** Where workers on other nodes know it by its address: the number that it has there. */
  network: Type.Optional(network),
  overlay: Type.Optional(OverlaySchema),
  requestId,
});

export const VclusterMoveRequest = request({ vcluster, tenant, moveId, requestId });
/** Said to a node that has lost it: what it has now; absent: nothing of it. */
export const VclusterLetGoRequest = request({
  vcluster,
  tenant,
  moveId,
  overlay: Type.Optional(OverlaySchema),
  requestId,
});
/** What it is on this node from now on; without: all of it is here. */
export const VclusterOverlayRequest = request({
  vcluster,
  tenant,
  overlay: Type.Optional(OverlaySchema),
  /** And what is missing of its workers here is made. */
  bring: Type.Optional(Type.Boolean()),
  requestId,
});

/** A worker of this node is to be another's: it is drained and goes. */
export const VclusterWorkerLeaveRequest = request({
  vcluster,
  tenant,
  worker: Type.String({ minLength: 1, maxLength: 63 }),
  requestId,
});
