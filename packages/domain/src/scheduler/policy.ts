// Which filters and scores act, and with what weight. What an operator writes becomes one of these once, at start.
import { AppError } from "@gpve/contracts/errors.ts";
import { guestFilters } from "./guest-filters.ts";
import { nodeFilters } from "./node-filters.ts";
import { STRATEGIES, type Strategy } from "./model.ts";
import type { CustomPlugin, Filter, Score } from "./plugin.ts";
import { roomFilters } from "./room-filters.ts";
import { scores } from "./scores.ts";

export const FILTERS: readonly Filter[] = [...nodeFilters, ...roomFilters, ...guestFilters];
export const FILTER_NAMES: readonly string[] = FILTERS.map(({ name }) => name);
export const SCORE_NAMES: readonly string[] = scores.map(({ name }) => name);

export interface WeightedScore {
  readonly score: Score;
  readonly weight: number;
}

export interface Policy {
  readonly defaultStrategy: Strategy;
  readonly filters: readonly Filter[];
  /** Filters that are switched off. */
  readonly off: readonly Filter[];
  /** What counts for a request of a strategy. */
  readonly scores: Readonly<Record<Strategy, readonly WeightedScore[]>>;
  readonly custom: readonly CustomPlugin[];
}

export interface PolicyText {
  readonly defaultStrategy?: string | undefined;
  /** Names; empty = all. */
  readonly filter?: readonly string[];
  /** Names, or NAME:WEIGHT; empty = the usual. */
  readonly score?: readonly string[];
}

/** What a strategy weighs more than anything else. */
const OF_STRATEGY: Readonly<Record<Strategy, readonly (readonly [string, number])[]>> = {
  balanced: [],
  "ha-spread": [["TopologySpread", 10]],
  utilization: [["MostAllocated", 20]],
  "gpu-aware": [["GpuBestFit", 10]],
  latency: [["Latency", 10]],
};
/** A strategy's opposite would only blunt it. */
const INSTEAD_OF: Readonly<Partial<Record<Strategy, readonly string[]>>> = {
  utilization: ["LeastAllocated", "ClusterSpread"],
};
const USUAL = ["BalancedAllocation", "LeastAllocated"];
/** What a request itself prefers counts whatever is configured. */
const ASKED: readonly (readonly [string, number])[] = [
  ["NodeAffinity", 5],
  ["GuestAffinity", 5],
  ["TaintToleration", 5],
  ["TopologySpread", 2],
  ["NumaBestFit", 1],
  ["GpuBestFit", 1],
  ["ClusterSpread", 2],
];

/** Throws config.invalid where a name is none. */
export function readPolicy(text: PolicyText = {}, custom: readonly CustomPlugin[] = []): Policy {
  const { defaultStrategy = "balanced" } = text;
  if (!isStrategy(defaultStrategy)) throw unknown("scheduler.defaultStrategy", defaultStrategy, STRATEGIES);
  const names = text.filter ?? [];
  for (const name of names)
    if (!FILTER_NAMES.includes(name)) throw unknown("scheduler.plugins.filter", name, FILTER_NAMES);
  const acts = (filter: Filter): boolean =>
    names.length === 0 || filter.always === true || names.includes(filter.name);
  return {
    defaultStrategy,
    filters: FILTERS.filter(acts),
    off: FILTERS.filter((filter) => !acts(filter)),
    scores: byStrategy(readScores(text.score ?? [])),
    custom,
  };
}

function byStrategy(configured: readonly WeightedScore[]): Policy["scores"] {
  const of = (strategy: Strategy): readonly WeightedScore[] => scoresFor(configured, strategy);
  return {
    balanced: of("balanced"),
    "ha-spread": of("ha-spread"),
    utilization: of("utilization"),
    "gpu-aware": of("gpu-aware"),
    latency: of("latency"),
  };
}

function scoresFor(configured: readonly WeightedScore[], strategy: Strategy): readonly WeightedScore[] {
  const isBlunting = (name: string): boolean => INSTEAD_OF[strategy]?.includes(name) === true;
  const weights = new Map(configured.map(({ score, weight }) => [score.name, weight]));
  for (const [name, weight] of [...ASKED, ...OF_STRATEGY[strategy]])
    weights.set(name, Math.max(weight, weights.get(name) ?? 0));
  for (const name of weights.keys()) if (isBlunting(name)) weights.delete(name);
  return scores.flatMap((score) => {
    const weight = weights.get(score.name);
    return weight === undefined ? [] : [{ score, weight }];
  });
}

export function isStrategy(text: string): text is Strategy {
  return (STRATEGIES as readonly string[]).includes(text);
}

function readScores(texts: readonly string[]): readonly WeightedScore[] {
  return (texts.length === 0 ? USUAL : texts).map((text) => {
    const [, name = "", weight = "1"] = /^([^:]*)(?::(\d{1,3}))?$/.exec(text) ?? [];
    const score = scores.find((each) => each.name === name);
    if (score === undefined) throw unknown("scheduler.plugins.score", text, SCORE_NAMES);
    return { score, weight: Number(weight) };
  });
}

function unknown(key: string, found: string, known: readonly string[]): AppError {
  return new AppError("config.invalid", `${key}: '${found}' is none of ${known.join(", ")}`);
}
