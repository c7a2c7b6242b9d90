// Why something is where it is, and what would be if: for people, before and afterwards.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { explain, explainAnew, type Explanation, type NodeVerdict } from "@gpve/domain/scheduler/explain.ts";
import { placementId } from "@gpve/domain/scheduler/guest-request.ts";
import { guestLabels, type PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import { simulateLoss, type HaVerdict, type LossOutcome } from "@gpve/domain/scheduler/node-loss.ts";
import type { Policy } from "@gpve/domain/scheduler/policy.ts";
import { readRules } from "@gpve/domain/scheduler/read-rules.ts";
import { violationsOf, type Violation } from "@gpve/domain/scheduler/rebalance.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { ClusterView } from "./cluster-view.ts";
import type { PolicyToExplain } from "./placer.ts";
import { placementKey, placementsDef } from "./placement-records.ts";

export interface ExplainDeps {
  readonly records: Records;
  readonly view: Pick<ClusterView, "state" | "requestOf">;
  readonly policy: Policy;
  /** With what extenders say about a request. */
  readonly policyFor: (request: PlacementRequest, signal: AbortSignal) => Promise<Policy>;
  /** The same as far as extenders answer. */
  readonly policyToExplain: (request: PlacementRequest, signal: AbortSignal) => Promise<PolicyToExplain>;
  /** What HA would do with guests of nodes that are lost, in the order of their turns. */
  readonly recovery: (lost: readonly string[]) => ReadonlyMap<string, HaVerdict>;
}

export interface PlacementStory {
  readonly id: string;
  readonly node: string;
  /** How it came there; absent = somebody named the node. */
  readonly decision?: {
    readonly at: string;
    readonly by: string;
    readonly node: string;
    readonly lost: number;
    readonly explanation: Explanation;
  };
  /** Where it would go if it were placed now. */
  readonly now: Explanation;
  /** An extender that was not heard about that, so that nothing would be placed at all, and why. */
  readonly without?: string;
  /** Rules that do not hold where it is. */
  readonly violations: readonly Violation[];
}

export interface PlaceQuestion {
  readonly kind?: "vm" | "ct" | "vc";
  readonly count?: number;
  readonly cpu?: number;
  readonly memoryBytes?: number;
  readonly storage?: Readonly<Record<string, number>>;
  readonly bridges?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly tenant?: string;
  readonly scheduling?: Readonly<Record<string, unknown>>;
}

export interface PlaceAnswer {
  readonly placed: readonly { readonly id: string; readonly node: string; readonly score: number }[];
  /** Of the first, or of the one that could not be placed. */
  readonly explanation: Explanation;
  readonly fits: boolean;
}

/** Reasons name others' guests, and labels and figures of nodes. */
const HIDDEN = "who has Sys.Audit on /nodes is told why";

export class ExplainPlacement {
  readonly #deps: ExplainDeps;

  constructor(deps: ExplainDeps) {
    this.#deps = deps;
  }

  /** Who may not see nodes learns which filters spoke, not about which nodes. */
  async guest(vmid: string, ctx: Pick<RequestContext, "access" | "signal">): Promise<PlacementStory> {
    const { records, view, policy, policyToExplain } = this.#deps;
    const guest = records.collection(guestCollection).get(vmid)?.value;
    if (guest === undefined) throw new AppError("object.not_found", `there is no guest ${vmid}`);
    const id = placementId(guest);
    const request = view.requestOf(guest);
    const { policy: extended, without } = await policyToExplain(request, ctx.signal);
    const state = view.state();
    const placed = records.collection(placementsDef).get(placementKey(id))?.value;
    const sees = (explanation: Explanation): Explanation => seenBy(ctx, explanation);
    const violations = violationsOf(state, policy, id).map((each) =>
      seesNodes(ctx) ? each : { ...each, why: HIDDEN },
    );
    return {
      id,
      node: guest.node,
      ...(placed === undefined
        ? {}
        : {
            decision: {
              at: new Date(placed.at).toISOString(),
              by: placed.by,
              node: placed.node,
              lost: placed.lost,
              explanation: sees(placed.explanation),
            },
          }),
      now: sees(explainAnew(state, request, extended)),
      ...given({ without: withoutFor(ctx, without) }),
      violations,
    };
  }

  async place(question: PlaceQuestion, signal: AbortSignal): Promise<PlaceAnswer> {
    const { view, policyFor } = this.#deps;
    // They are all alike: extenders are asked once.
    const policy = await policyFor(requestOf(question, 0), signal);
    const state = view.state().clone();
    const placed: PlaceAnswer["placed"][number][] = [];
    let first: Explanation | undefined;
    for (let at = 0; at < (question.count ?? 1); at++) {
      const request = requestOf(question, at);
      const explanation = explain(state, request, policy);
      first ??= explanation;
      if (explanation.node === undefined) return { placed, explanation, fits: false };
      state.place({ request, node: explanation.node, counts: true });
      placed.push({ id: request.id, node: explanation.node, score: explanation.score });
    }
    return { placed, explanation: first ?? explain(state, requestOf(question, 0), policy), fits: true };
  }

  nodeLoss(nodes: readonly string[]): LossOutcome {
    const { view, policy } = this.#deps;
    const state = view.state();
    requireNodes(state, nodes);
    return simulateLoss(state, nodes, policy, this.#deps.recovery(nodes));
  }
}

export function seenBy<E extends Pick<Explanation, "node" | "verdicts">>(
  ctx: Pick<RequestContext, "access">,
  explanation: E,
): E {
  if (seesNodes(ctx)) return explanation;
  const verdicts = explanation.verdicts.filter(({ node }) => node === explanation.node);
  return {
    ...explanation,
    verdicts: verdicts.map(({ node, refusals }): NodeVerdict => ({ node, refusals })),
  };
}

export function withoutFor(
  ctx: Pick<RequestContext, "access">,
  without: string | undefined,
): string | undefined {
  return without === undefined || seesNodes(ctx) ? without : `an extender was not heard: ${HIDDEN}`;
}

function seesNodes({ access }: Pick<RequestContext, "access">): boolean {
  return access.has("/nodes", ["Sys.Audit"]);
}

function requireNodes(state: ClusterState, nodes: readonly string[]): void {
  const unknown = nodes.find((node) => state.indexOf(node) === undefined);
  if (unknown === undefined) return;
  const known = state.nodes.map(({ name }) => name).join(", ");
  throw new AppError("object.not_found", `there is no node '${unknown}'; there are ${known}`);
}

/** What a storage must take for its volumes. */
const CONTENT = { vm: "images", ct: "rootdir", vc: undefined } as const;

function requestOf(question: PlaceQuestion, at: number): PlacementRequest {
  const { kind = "vm", cpu = 1, memoryBytes = 1024 ** 3, storage, bridges, labels, tenant } = question;
  const rules = readRules(question.scheduling, "scheduling") ?? {};
  const name = `simulated-${at + 1}`;
  return {
    id: `${kind}/${name}`,
    kind,
    demand: { cpu, memory: memoryBytes, ...given({ gpus: rules.gpuCount }) },
    needs: {
      ...given({ storages: storage, bridges, content: CONTENT[kind] }),
    },
    labels: guestLabels({ kind, name, ...given({ labels, tenant }) }),
    rules,
  };
}
