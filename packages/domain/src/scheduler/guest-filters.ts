// Filters that look at where other guests are: affinity, anti-affinity (of both sides), spread, distance.
import { parseLabelSelector } from "@gpve/contracts/v1/selector.ts";
import type { ClusterState } from "./cluster-state.ts";
import { selects } from "./label-buckets.ts";
import { HOSTNAME_LABEL, TENANT_LABEL } from "./model.ts";
import type { GuestTerm, PlacementRequest, SpreadRule } from "./model.ts";
import { missingLabel, nodeFilters } from "./node-filters.ts";
import { keptRefusals } from "./kept-refusals.ts";
import { nodeAt, sift, type Filter, type PreparedFilter, type Question } from "./plugin.ts";
import type { Topology } from "./topology.ts";
import { listText } from "./words.ts";

export const guestFilters: readonly Filter[] = [
  {
    name: "GuestAffinity",
    standsFor: ({ request: { rules } }) =>
      (rules.affinity?.required ?? []).length > 0 || (rules.antiAffinity?.required ?? []).length > 0,
    prepare: (question) => allOf([...together(question), ...apart(question), ...keptAway(question)]),
  },
  {
    name: "TopologySpread",
    standsFor: (question) => hardSpreads(question).length > 0,
    prepare: (question) => allOf(hardSpreads(question).map((rule) => spread(question, rule))),
  },
  {
    name: "MaxHops",
    standsFor: ({ request }) => request.rules.maxHops !== undefined,
    prepare: (question) => {
      const { maxHops } = question.request.rules;
      if (maxHops === undefined) return undefined;
      const near = nearOf(question.request);
      const { farthest, total } = distances(question.state, near);
      if (total === 0) return undefined;
      return {
        refuses: (at) => farthest(at) > maxHops,
        why: (at) => {
          const hops = farthest(at);
          const far = hops === 1 ? "1 hop" : `${hops} hops`;
          return `it is ${far} from a guest that '${near}' selects, and at most ${maxHops} are allowed`;
        },
      };
    },
  },
];

/** The guests that a latency rule is about: its tenant's, where nothing else is said. */
export function nearOf({ rules, labels }: PlacementRequest): string {
  const tenant = labels[TENANT_LABEL];
  return rules.near ?? (tenant === undefined ? "" : `${TENANT_LABEL}=${tenant}`);
}

export interface Distances {
  readonly total: number;
  readonly farthest: (node: number) => number;
  readonly means: (nodes: Int32Array, means: Float64Array) => void;
}

/** From counts of each level: nobody looks at every pair of nodes. */
export function distances(state: ClusterState, near: string): Distances {
  const hosts = state.counts(near);
  const levels = [hosts, ...state.levels().map((_key, level) => state.counts(near, `hops:${level}`))];
  /** How many of them are at most `level` hops away. */
  const within = (at: number, level: number): number => {
    const { topology, counts } = levels[level] ?? hosts;
    const place = topology.placeOf[at] ?? -1;
    return place < 0 ? 0 : (counts[place] ?? 0);
  };
  return {
    total: hosts.total,
    farthest: (at) => {
      for (let level = 0; level < levels.length; level++) if (within(at, level) >= hosts.total) return level;
      return levels.length;
    },
    means: (nodes, means) => {
      for (let index = 0; index < nodes.length; index++) {
        const at = nodes[index] ?? 0;
        let sum = 0;
        let seen = 0;
        for (let level = 0; level < levels.length; level++) {
          const found = Math.max(seen, within(at, level));
          sum += level * (found - seen);
          seen = found;
        }
        means[index] = hosts.total === 0 ? 0 : (sum + levels.length * (hosts.total - seen)) / hosts.total;
      }
    },
  };
}

/** Rules of spreading that must hold. `maxSkew` does whatever the default strategy is: with another one it is refused. */
export function hardSpreads({ request: { rules } }: Question): readonly SpreadRule[] {
  const own = (rules.spread ?? []).filter(({ whenUnsatisfiable }) => whenUnsatisfiable !== "ScheduleAnyway");
  if (rules.maxSkew === undefined) return own;
  return [...own, { maxSkew: rules.maxSkew, topologyKey: rules.topologyKey ?? HOSTNAME_LABEL }];
}

/** The guests that a rule spreads: its tenant's, where nothing else is said. */
export function spreadOf({ labels }: PlacementRequest, rule: Partial<GuestTerm>): string {
  const tenant = labels[TENANT_LABEL];
  return rule.guests ?? (tenant === undefined ? "" : `${TENANT_LABEL}=${tenant}`);
}

function together(question: Question): readonly PreparedFilter[] {
  const { state, request } = question;
  return (request.rules.affinity?.required ?? []).map((term) => {
    const { topologyKey = HOSTNAME_LABEL } = term;
    const { topology, counts, total } = state.counts(term.guests, topologyKey);
    // The first of those that belong together has nobody to join.
    const isFirst = total === 0 && selects(parseLabelSelector(term.guests), request.labels);
    return {
      refuses: (at) => {
        const place = topology.placeOf[at] ?? -1;
        return place < 0 || (!isFirst && (counts[place] ?? 0) === 0);
      },
      why: (at) =>
        missingLabel(nodeAt(question, at), topologyKey) ??
        (total === 0
          ? `no guest is there that '${term.guests}' selects, and it must be with one`
          : `no guest that '${term.guests}' selects is ${whereText(topologyKey)}, and it must be with one`),
    };
  });
}

function apart(question: Question): readonly PreparedFilter[] {
  const { state, request } = question;
  return (request.rules.antiAffinity?.required ?? []).map((term) => {
    const { topologyKey = HOSTNAME_LABEL } = term;
    const { topology, counts } = state.counts(term.guests, topologyKey);
    return {
      ...notBeside(topology, counts),
      why: (at) =>
        `${namesAt(state, topologyKey, at, term.guests)} ${whereText(topologyKey)}, from which it must be apart`,
    };
  });
}

/** Those that are there do not want it beside them either. */
function keptAway({ state, request }: Question): readonly PreparedFilter[] {
  return state.antiTermsAbout(request.labels).map((term) => {
    const { topology, counts } = state.holders(term);
    return {
      ...notBeside(topology, counts),
      why: (at) => {
        const holders = [...term.ids].filter((id) => {
          const node = state.indexOf(state.guest(id)?.node ?? "") ?? -1;
          return topology.placeOf[node] === topology.placeOf[at];
        });
        return `${listText(holders.toSorted())} must be apart from guests that '${term.guests}' selects, and this is ${whereText(term.topologyKey).replace("on it", "on the same node")}`;
      },
    };
  });
}

/** A node without the label is in no place that it would share. */
function notBeside({ placeOf }: Topology, counts: Int32Array): Omit<PreparedFilter, "why"> {
  return {
    refuses: (at) => (counts[placeOf[at] ?? -1] ?? 0) > 0,
    sift: (nodes, count) => {
      let left = 0;
      for (let index = 0; index < count; index++) {
        const at = nodes[index] ?? 0;
        const place = placeOf[at] ?? -1;
        if (place < 0 || (counts[place] ?? 0) === 0) nodes[left++] = at;
      }
      return left;
    },
  };
}

function spread(question: Question, rule: SpreadRule): PreparedFilter {
  const { state, request } = question;
  const { topologyKey = HOSTNAME_LABEL, maxSkew } = rule;
  const guests = spreadOf(request, rule);
  const { topology, counts } = state.counts(guests, topologyKey);
  const self = selects(parseLabelSelector(guests), request.labels) ? 1 : 0;
  const least = leastOf(question, topology.placeOf, counts);
  const skew = (at: number): number => (counts[topology.placeOf[at] ?? -1] ?? 0) + self - least;
  return {
    refuses: (at) => (topology.placeOf[at] ?? -1) < 0 || skew(at) > maxSkew,
    why: (at) =>
      missingLabel(nodeAt(question, at), topologyKey) ??
      `${counts[topology.placeOf[at] ?? -1] ?? 0} of the guests to be spread are ${whereText(topologyKey)} already, ${least} where fewest are, and they may differ by ${maxSkew}`,
  };
}

/** Only places where it could go count: a zone that is down must not hold everything up. */
function leastOf(question: Question, placeOf: Int32Array, counts: Int32Array): number {
  const refused = keptRefusals(question, nodeFilters);
  let least = Number.POSITIVE_INFINITY;
  for (let at = 0; at < placeOf.length; at++) {
    const place = placeOf[at] ?? -1;
    if (place >= 0 && refused[at] === 0) least = Math.min(least, counts[place] ?? 0);
  }
  return Number.isFinite(least) ? least : 0;
}

function allOf(filters: readonly PreparedFilter[]): PreparedFilter | undefined {
  const [only] = filters;
  if (filters.length <= 1) return only;
  return {
    refuses: (at) => filters.some((filter) => filter.refuses(at)),
    sift: (nodes, count) => filters.reduce((left, filter) => sift(filter, nodes, left), count),
    why: (at) =>
      filters
        .filter((filter) => filter.refuses(at))
        .map((filter) => filter.why(at))
        .join("; "),
  };
}

function whereText(topologyKey: string): string {
  return topologyKey === HOSTNAME_LABEL ? "on it" : `in the same ${topologyKey.replace(/^.*\//, "")}`;
}

function namesAt(state: ClusterState, topologyKey: string, at: number, guests: string): string {
  const { placeOf } = state.topology(topologyKey);
  const selector = parseLabelSelector(guests);
  const found = [...state.guests()].filter(
    ({ node, request }) =>
      placeOf[state.indexOf(node) ?? -1] === placeOf[at] && selects(selector, request.labels),
  );
  const names = found.map(({ request }) => request.id).toSorted();
  return `${listText(names)} ${names.length === 1 ? "is" : "are"}`;
}
