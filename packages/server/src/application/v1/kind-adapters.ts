import { BUILTIN_ROLES } from "@gpve/domain/access/builtin-roles.ts";
import type { KindAdapter } from "./adapter.ts";
import { bindingAdapter } from "./adapters/binding.ts";
import { eventAdapter } from "./adapters/event.ts";
import { networkAdapter } from "./adapters/network.ts";
import { nodeAdapter, type NodeAdapterDeps } from "./adapters/node.ts";
import { rebalancePlanAdapter, type RebalancePlanDeps } from "./adapters/rebalance-plan.ts";
import { resourceQuotaAdapter, type ResourceQuotaDeps } from "./adapters/resource-quota.ts";
import { roleAdapter } from "./adapters/role.ts";
import { storageAdapter, type StorageAdapterDeps } from "./adapters/storage.ts";
import { taskAdapter } from "./adapters/task.ts";
import type { TaskAdapterDeps } from "./adapters/task.ts";
import { tenantAdapter } from "./adapters/tenant.ts";
import { userAdapter } from "./adapters/user.ts";
import { virtualClusterAdapter, type VirtualClusterDeps } from "./adapters/virtual-cluster.ts";
import { virtualMachineAdapter, type VirtualMachineDeps } from "./adapters/virtual-machine.ts";

/** The kinds of the foundation. Modules add theirs to the list. */
export function createKindAdapters(
  deps: NodeAdapterDeps &
    VirtualMachineDeps &
    VirtualClusterDeps &
    TaskAdapterDeps &
    ResourceQuotaDeps &
    RebalancePlanDeps &
    StorageAdapterDeps,
): readonly KindAdapter[] {
  const privileges = new Set([...BUILTIN_ROLES.values()].flatMap((role) => role.privileges));
  return [
    nodeAdapter(deps),
    tenantAdapter(),
    taskAdapter(deps),
    eventAdapter(),
    userAdapter(),
    roleAdapter(privileges),
    bindingAdapter(),
    resourceQuotaAdapter(deps),
    storageAdapter(deps),
    networkAdapter(deps),
    virtualMachineAdapter(deps),
    rebalancePlanAdapter(deps),
    virtualClusterAdapter(deps),
  ];
}
