// Every kind of /api/v1. A module adds one line here and an adapter in the server.
import type { KindDeclaration } from "./kind.ts";
import { bindingKind } from "./kinds/binding.ts";
import { eventKind } from "./kinds/event.ts";
import { networkKind } from "./kinds/network.ts";
import { nodeKind } from "./kinds/node.ts";
import { rebalancePlanKind } from "./kinds/rebalance-plan.ts";
import { resourceQuotaKind } from "./kinds/resource-quota.ts";
import { roleKind } from "./kinds/role.ts";
import { storageKind } from "./kinds/storage.ts";
import { taskKind } from "./kinds/task.ts";
import { tenantKind } from "./kinds/tenant.ts";
import { userKind } from "./kinds/user.ts";
import { virtualClusterKind } from "./kinds/virtual-cluster.ts";
import { virtualMachineKind } from "./kinds/virtual-machine.ts";

export const v1Kinds: readonly KindDeclaration[] = [
  nodeKind,
  tenantKind,
  taskKind,
  eventKind,
  userKind,
  roleKind,
  bindingKind,
  resourceQuotaKind,
  storageKind,
  networkKind,
  virtualMachineKind,
  rebalancePlanKind,
  virtualClusterKind,
];

/** Finds a kind by kind, plural or alias, in any letter case. */
export function findKind(
  name: string,
  kinds: readonly KindDeclaration[] = v1Kinds,
): KindDeclaration | undefined {
  const wanted = name.toLowerCase();
  return kinds.find(
    (kind) => kind.kind.toLowerCase() === wanted || kind.plural === wanted || kind.aliases.includes(wanted),
  );
}
