import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { tenantOption, vcArgument, vcCollection, vcNamed, vcWords } from "./find-vc.ts";

const FACTS = [
  { header: "Name", field: "metadata.name" },
  { header: "Tenant", field: "metadata.namespace" },
  { header: "Phase", field: "status.phase" },
  { header: "Why", field: "why" },
  { header: "Power", field: "status.power" },
  { header: "Kubernetes", field: "status.kubernetesVersion" },
  { header: "Endpoint", field: "status.endpoint" },
  { header: "Node", field: "status.node" },
  { header: "Tier", field: "spec.controlPlane.tier" },
  { header: "Store", field: "spec.controlPlane.backingStore" },
  { header: "Isolation", field: "spec.isolationLevel" },
  { header: "Workers", field: "workers" },
  { header: "Memory", field: "status.memoryBytes", format: "bytes" },
  { header: "Standby", field: "standby" },
  { header: "Asleep by itself", field: "spec.sleep.mode" },
  { header: "Now awake", field: "awake" },
] as const;

const WORKERS = [
  { header: "WORKER", field: "name" },
  { header: "NODE", field: "node" },
  { header: "RUNNING", field: "running", format: "boolean" },
  { header: "PODS", field: "pods" },
  { header: "CPUS", field: "cpu" },
  { header: "MEMORY", field: "usedBytes", of: "memoryBytes", format: "percent" },
  { header: "OF", field: "memoryBytes", format: "bytes" },
  { header: "VOLUMES", field: "volumes" },
] as const;

const REPLICAS = [
  { header: "REPLICA ON", field: "node" },
  { header: "PHASE", field: "phase" },
  { header: "READY", field: "ready", format: "boolean" },
] as const;

export const vcShow: CommandSpec = {
  name: "vc show",
  summary: "show how a virtual cluster is, with its workers",
  arguments: [vcArgument],
  options: [tenantOption],
  examples: ["vc show demo", "vc show shop/demo -o json"],
  doing: (input) => `show virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const named = vcNamed(input);
    const found = await v1.get(vcCollection(named.tenant), named.name);
    const { status } = found;
    if (!cli.out.forPeople) {
      cli.out.data(found);
      return;
    }
    const standby = (status["standby"] as { readonly node?: string } | undefined)?.node;
    const facts = {
      // Also of one that goes on: workers that did not come, or did not go.
      why: conditionOf(status["conditions"], "Ready")?.message,
      awake: conditionOf(status["conditions"], "KeptAwake")?.message,
      workers: workersText(found.spec["workerNodes"]),
      // One that lags is no good one: what the condition says names its node too.
      standby: unmet(status["conditions"], "StandbyInSync") ?? standby,
    };
    cli.out.facts({ ...found, ...given(facts) }, FACTS);
    for (const [rows, columns] of [
      [status["replicas"], REPLICAS],
      [status["vnodes"], WORKERS],
    ] as const) {
      if (!Array.isArray(rows) || rows.length === 0) continue;
      cli.out.line();
      cli.out.rows(rows, columns, "");
    }
    if (status["phase"] === "Running")
      cli.out.note(`To use it: gpvectl vc kubeconfig ${vcWords(named)} --merge`);
  },
};

interface Condition {
  readonly type?: string;
  readonly status?: string;
  readonly message?: string;
}

/** What a condition says that does not hold. */
function unmet(conditions: unknown, type: string): string | undefined {
  const found = conditionOf(conditions, type);
  return found?.status === "True" ? undefined : found?.message;
}

function conditionOf(conditions: unknown, type: string): Condition | undefined {
  const all = (Array.isArray(conditions) ? conditions : []) as readonly Condition[];
  return all.find((each) => each.type === type);
}

/** "2", or "1, build 2" where there are pools. */
function workersText(wanted: unknown): string | undefined {
  const { count, pools = [] } = (wanted ?? {}) as {
    readonly count?: number;
    readonly pools?: readonly { readonly name: string; readonly count?: number }[];
  };
  if (count === undefined) return undefined;
  return [String(count), ...pools.map((pool) => `${pool.name} ${pool.count ?? 1}`)].join(", ");
}
