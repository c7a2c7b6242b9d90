// A virtual cluster that names its node. Who does means it, also where it is closed to others.
import { AppError } from "@gpve/contracts/errors.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { kataOf, kataRefused } from "@gpve/domain/vcluster/vnode/kata.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../../node/collections.ts";
import { whyNoVolumes } from "../volumes/volume-storage.ts";
import { lackingLabel, type Sized, whyNoControlPlane, whyNoRoom } from "./node-refusal.ts";

export interface NodesDeps {
  readonly records: Pick<Records, "collection">;
  readonly board: Pick<NodeBoard, "get" | "list">;
}

type Wanted = Pick<
  VirtualClusterSpec,
  "node" | "nodeSelector" | "isolationLevel" | "volumeStorage" | "tier" | "controlPlaneSize"
> &
  Sized;

/** The one that is asked for, with all that it has to have but room. */
export function requireNode({ records, board }: NodesDeps, wanted: Wanted): NodeView {
  const { node } = wanted;
  const found = board.get(node);
  if (found?.health !== "online") {
    const online = board.list().filter(({ health }) => health === "online");
    const known = online.map((each) => each.node).join(", ");
    const text = `spec.node: '${node}' is no node that is online; these are: ${known}`;
    throw invalidField("spec.node", "is no node that is online", text);
  }
  const kata = wanted.isolationLevel === "L2" ? kataOf(found.facts?.capabilities) : "able";
  if (typeof kata === "object") throw invalidSpec("isolationLevel", kataRefused(`${node}: ${kata.refusal}`));
  const { labels = {} } = records.collection(nodeRecords).get(node)?.value ?? {};
  if (lackingLabel(labels, wanted) !== undefined)
    throw invalidSpec("workerNodes.nodeSelector", `node ${node} does not have these labels`);
  const lacks = whyNoVolumes(records, node, wanted);
  if (lacks !== undefined) throw invalidSpec("volumes.storage", `node ${node} cannot have them: ${lacks}`);
  return found;
}

/** Of a new one, which has to have room for its control plane too. Answers with its name. */
export function requireNewOn(deps: NodesDeps, wanted: Wanted): string {
  const view = requireNode(deps, wanted);
  const why = whyNoControlPlane(view, wanted);
  if (why !== undefined) throw noRoomOn(view, why);
  return requireRoomOn(view, wanted);
}

/** Answers with its name. */
export function requireRoomOn(view: NodeView, spec: Sized): string {
  const why = whyNoRoom(view, spec);
  if (why === undefined) return view.node;
  throw noRoomOn(view, why);
}

function noRoomOn({ node }: NodeView, why: string): AppError {
  return new AppError("capacity.exceeded", `node ${node} cannot have the virtual cluster: ${why}`);
}
