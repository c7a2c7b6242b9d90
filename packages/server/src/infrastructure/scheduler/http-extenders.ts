// Asks services over HTTP about the nodes that are left. POST {request, nodes: [...]} is answered by
// {refused: {NODE: WHY}, scores: {NODE: 0..100}}; both may be left out.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";
import type { PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import type { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import type { CustomPlugin, Extend } from "@gpve/domain/scheduler/plugin.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface Extender {
  readonly name: string;
  readonly url: string;
  readonly timeoutMs: number;
  readonly weight: number;
  readonly onFailure: "refuse" | "ignore";
}

interface ExtenderDeps {
  readonly view: { state(): ClusterState };
  readonly log: Pick<Logger, "warn">;
}

const MOST_BYTES = 4 * 1024 * 1024;
const MOST_POINTS = 100;

/** undefined = there are none, and nobody is asked. */
export function httpExtenders(extenders: readonly Extender[], deps: ExtenderDeps): Extend | undefined {
  if (extenders.length === 0) return undefined;
  return async (request, candidates, signal) => {
    const answers = await Promise.all(
      extenders.map((each) => ask(each, request, candidates, { ...deps, signal })),
    );
    return answers.flat();
  };
}

async function ask(
  extender: Extender,
  request: PlacementRequest,
  candidates: readonly string[],
  deps: ExtenderDeps & { readonly signal: AbortSignal },
): Promise<readonly CustomPlugin[]> {
  const { name, url, timeoutMs, weight, onFailure } = extender;
  try {
    const state = deps.view.state();
    const nodes = candidates.flatMap((node) => state.nodes[state.indexOf(node) ?? -1] ?? []);
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        request,
        nodes: nodes.map(({ name: node, labels, allocatable }) => ({ node, labels, allocatable })),
      }),
      signal: AbortSignal.any([deps.signal, AbortSignal.timeout(timeoutMs)]),
      redirect: "error",
    });
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    const text = await textOf(response);
    return [pluginOf(name, weight, JSON.parse(text))];
  } catch (err) {
    const why = `extender ${name} of the scheduler (${url}) failed within ${timeoutMs} ms: ${messageOf(err)}`;
    if (onFailure === "ignore") {
      deps.log.warn({ extender: name }, `${why}; placed without it`);
      return [];
    }
    throw new AppError(
      "node.unavailable",
      `${why}; mend it, or set onFailure: ignore for it in server.yaml`,
      { cause: err },
    );
  }
}

function pluginOf(name: string, weight: number, answer: unknown): CustomPlugin {
  const { refused, scores } = (answer ?? {}) as { readonly refused?: unknown; readonly scores?: unknown };
  const whys = mapOf(refused, "refused");
  const points = mapOf(scores, "scores");
  return {
    name,
    weight,
    refuse: (node) =>
      Object.hasOwn(whys, node.name) ? `${name}: ${String(whys[node.name]).slice(0, 500)}` : undefined,
    ...(scores === undefined
      ? {}
      : { score: (node) => scoreOf(Object.hasOwn(points, node.name) ? points[node.name] : 0) }),
  };
}

/** No more of it than we want is ever held. */
async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MOST_BYTES) throw new Error("its answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** What is no number of points is none. */
function scoreOf(said: unknown): number {
  const points = typeof said === "number" && Number.isFinite(said) ? said : 0;
  return Math.min(Math.max(points, 0), MOST_POINTS);
}

function mapOf(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (value === undefined) return {};
  if (isObject(value)) return value;
  throw new Error(`${what} of its answer is no object`);
}
