// An operator's own filters and scores, in CEL: `node.labels.site == request.labels.site`. Read once, at start. What an
// expression cannot answer for a node refuses the node, and says so.
import { Environment } from "@marcbachmann/cel-js";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { PlacementRequest, SchedulerNode } from "@gpve/domain/scheduler/model.ts";
import type { CustomPlugin, NodeFigures } from "@gpve/domain/scheduler/plugin.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface Expression {
  readonly name: string;
  readonly filter?: string | undefined;
  readonly says?: string | undefined;
  readonly score?: string | undefined;
  readonly weight: number;
}

type Evaluate = (node: SchedulerNode, request: PlacementRequest, figures: NodeFigures) => unknown;

export function celPlugins(
  expressions: readonly Expression[],
  log: Pick<Logger, "warn">,
): readonly CustomPlugin[] {
  return expressions.map(({ name, filter, says, score, weight }, at) => {
    const key = `scheduler.expressions[${at}] (${name})`;
    if (filter === undefined && score === undefined)
      throw new AppError("config.invalid", `${key}: has neither filter nor score`);
    const accepts = filter === undefined ? undefined : compiled(`${key}.filter`, filter);
    let told: string | undefined;
    const rates = score === undefined ? undefined : compiled(`${key}.score`, score);
    return {
      name,
      weight,
      ...(accepts === undefined
        ? {}
        : {
            refuse: (...about: Parameters<Evaluate>) => {
              try {
                const answer = accepts(...about);
                if (answer === true) return undefined;
                if (answer === false) return says ?? `expression ${name} of server.yaml does not take it`;
                return `expression ${name} of server.yaml is neither true nor false for it`;
              } catch (err) {
                return `expression ${name} of server.yaml cannot be worked out for it: ${firstLine(err)}`;
              }
            },
          }),
      ...(rates === undefined
        ? {}
        : {
            score: (...about: Parameters<Evaluate>) => {
              try {
                return Number(rates(...about));
              } catch (err) {
                const why = firstLine(err);
                // Not for every node of every decision.
                if (why !== told)
                  log.warn({ expression: name, err: why }, "a score's expression failed; it counts as 0");
                told = why;
                return 0;
              }
            },
          }),
    };
  });
}

/** CEL itself has no arithmetic of an int and a double: an operator who writes `100 - node.guests` means it all the same. */
const MIXED: Readonly<Record<string, (a: number, b: number) => number>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "%": (a, b) => a % b,
};

function compiled(key: string, text: string): Evaluate {
  const environment = new Environment({ unlistedVariablesAreDyn: false })
    .registerVariable("node", "map")
    .registerVariable("request", "map");
  for (const [sign, work] of Object.entries(MIXED)) {
    const ofNumbers = (a: unknown, b: unknown): number => work(Number(a), Number(b));
    environment.registerOperator(`int ${sign} double: double`, ofNumbers);
    environment.registerOperator(`double ${sign} int: double`, ofNumbers);
  }
  let run: (context: Record<string, unknown>) => unknown;
  try {
    const parsed = environment.parse(text);
    const { valid, error } = parsed.check();
    if (!valid) throw error ?? new Error("it is no expression of CEL");
    run = parsed;
  } catch (err) {
    throw new AppError("config.invalid", `${key}: cannot be read: ${messageOf(err)}`, { cause: err });
  }
  return (node, request, figures) => run({ node: nodeValue(node, figures), request: requestValue(request) });
}

/** Counts as doubles, so that they compare with what an operator writes as 0.5 or 3.0. */
function nodeValue(node: SchedulerNode, figures: NodeFigures): Record<string, unknown> {
  return {
    name: node.name,
    labels: { ...node.labels },
    taints: node.taints.map(({ key, value = "", effect }) => ({ key, value, effect })),
    cpu: node.allocatable.cpu,
    memory: node.allocatable.memory,
    cpuUsed: figures.cpuUsed,
    memoryUsed: figures.memoryUsed,
    gpus: [...node.gpus],
    gpusUsed: figures.gpusUsed,
    guests: figures.guests,
    bridges: [...node.bridges],
    storages: Object.keys(node.storages),
  };
}

function requestValue({ id, kind, demand, labels }: PlacementRequest): Record<string, unknown> {
  return { id, kind, cpu: demand.cpu, memory: demand.memory, gpus: demand.gpus ?? 0, labels: { ...labels } };
}

function firstLine(err: unknown): string {
  return messageOf(err).split("\n", 1)[0] ?? "";
}
