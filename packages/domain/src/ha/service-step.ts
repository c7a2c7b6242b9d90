import type { HaEnvironment } from "./environment.ts";
import type { ServiceConfig, ServiceState, ServiceStatus } from "./model.ts";
import type { NodeStates } from "./node-states.ts";
import type { Placement } from "./select-node.ts";

/** What one step of a service may look at and do. */
export interface ServiceStep {
  readonly env: HaEnvironment;
  readonly nodes: NodeStates;
  readonly config: ReadonlyMap<string, ServiceConfig>;
  readonly fenced: Set<string>;
  readonly placement: () => Placement;
  readonly change: (sid: string, state: ServiceState, details?: Partial<ServiceStatus>) => void;
}
