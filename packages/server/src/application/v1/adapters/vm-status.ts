// How a VM is: its configuration from the store, the rest from what its node reports.
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeHealth } from "@gpve/domain/node/runtime.ts";
import { pendingRows } from "@gpve/domain/vm/change/pending.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import type { ShownPhase } from "../../phase/vm-phases.ts";
import type { ConditionClock } from "./node.ts";
import { vmConditions } from "./vm-conditions.ts";

interface VmFacts {
  readonly record: GuestRecord;
  readonly config: VmConfig;
  readonly runtime: GuestRuntime | undefined;
  readonly health: NodeHealth | undefined;
  readonly shown: ShownPhase;
  readonly times: ConditionClock;
}

export function vmStatus({ record, config, runtime, health, shown, times }: VmFacts): Fields {
  const { summary, node, pendingAt = madeAt(config) } = record;
  const pending = pendingRows(config)
    .filter((row) => row.pending !== undefined || row.delete !== undefined)
    .map(({ key }) => key);
  const snapshots = Object.keys(config.snapshots);
  const running = runtime?.status === "running";
  return {
    phase: shown.phase,
    state: running ? "running" : health === "online" ? "stopped" : "unknown",
    node,
    conditions: vmConditions({ shown, node, health, pending, pendingAt, times }),
    name: summary.name,
    cpus: summary.cpus,
    memoryBytes: summary.maxmem,
    diskBytes: summary.maxdisk,
    template: summary.template,
    ...given({ lock: summary.lock }),
    ...given({ tags: summary.tags?.split(/[;, ]+/).filter((tag) => tag !== "") }),
    ...(pending.length === 0 ? {} : { pending }),
    ...(snapshots.length === 0 ? {} : { snapshots }),
    ...(running
      ? {
          ...given({ startTime: startTime(runtime) }),
          uptimeSeconds: runtime.uptimeSeconds,
          usage: { cpu: runtime.cpu, memoryBytes: runtime.mem },
          ...given({ addresses: runtime.addresses }),
        }
      : {}),
  };
}

function startTime({ extra }: GuestRuntime): string | undefined {
  const at = extra?.["startedAt"];
  return typeof at === "number" && Number.isSafeInteger(at) ? new Date(at).toISOString() : undefined;
}

/** When it was made, milliseconds since the epoch; undefined = its configuration does not say. */
export function madeAt({ values }: VmConfig): number | undefined {
  const seconds = Number(/(?:^|,)ctime=(\d{1,12})(?:,|$)/.exec(values["meta"] ?? "")?.[1]);
  return seconds > 0 ? seconds * 1000 : undefined;
}
