// The scheduler over the nodes that a test's board has: those that say nothing of their room have enough, and of equally good
// ones the first by name is taken.
import { isInMaintenance, managerCollection } from "@gpve/domain/ha/collections.ts";
import { nodeResources } from "@gpve/domain/node/node-resources.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import type { SchedulerNode } from "@gpve/domain/scheduler/model.ts";
import type { CustomPlugin } from "@gpve/domain/scheduler/plugin.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { schedulerNode } from "@gpve/domain/scheduler/scheduler-node.ts";
import { GiB } from "@gpve/domain/scheduler/testing/placement-world.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../application/node/collections.ts";
import { Placer } from "../application/scheduler/placer.ts";
import { SchedulerFigures } from "../application/scheduler/scheduler-figures.ts";
import { joinedNode } from "./joined-node.ts";

interface Nodes {
  readonly records: Records;
  readonly board: Pick<NodeBoard, "list">;
}

export function boardPlacer(nodes: Nodes): Placer {
  const byName: CustomPlugin = {
    name: "ByName",
    weight: 0.01,
    score: ({ name }) => {
      const names = nodes.board.list().map(({ node }) => node);
      return 100 - names.toSorted().indexOf(name);
    },
  };
  return new Placer({
    records: nodes.records,
    view: { state: () => boardState(nodes), onChange: () => () => undefined },
    policy: readPolicy({}, [byName]),
    extend: undefined,
    clock: new FakeClock(),
    figures: new SchedulerFigures(),
    log: silentLogger,
  });
}

export function boardState({ records, board }: Nodes): ClusterState {
  const clusters = records.collection(vclusterCollection).list();
  return new ClusterState(
    board.list().map((view) => nodeOf(records, view)),
    clusters.flatMap(({ value }) => clusterShares(value)),
  );
}

function nodeOf(records: Records, view: NodeView): SchedulerNode {
  const { node: name, health } = view;
  const record = records.collection(nodeRecords).get(name)?.value ?? joinedNode(name);
  const inMaintenance = isInMaintenance(name, records.collection(managerCollection));
  const { away: _unseen, ...told } = schedulerNode(record, undefined, [], inMaintenance);
  return {
    ...told,
    allocatable: nodeResources(view, [])?.allocatable ?? { cpu: 1_000, memory: 1_000 * GiB },
    cpus: 1_000,
    ...(health === "online" ? {} : { away: "its agent does not report" }),
  };
}
