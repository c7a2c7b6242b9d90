// cluster.yaml from text to a checked value with defaults. All problems are told at once, each with its line.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { type Document, isMap, isNode, isSeq, LineCounter, parseDocument } from "yaml";
import { contractOf } from "../contract/contracts.ts";
import { kubernetesRanges } from "../contract/kubernetes-versions.ts";
import type { FindingId } from "../findings/catalogue.ts";
import { clusterProblems } from "./cluster-rules.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterFile } from "./cluster-schema.ts";
import { type Environment, fillEnvironment } from "./environment.ts";
import { crowdedControlPlanes } from "./machine-places.ts";
import { machinesOf } from "./machines.ts";
import type { Problem } from "./problem.ts";
import { schemaProblems } from "./schema-problems.ts";

export interface PlacedProblem {
  readonly id: FindingId;
  readonly line: number;
  /** "network.gateway"; "the file" for the whole of it. */
  readonly key: string;
  readonly message: string;
}

/** What was decided when the cluster was made, for what the file leaves open. */
export interface PinnedVersions {
  readonly contract: string | null;
  readonly kubernetes?: string;
}

export type ReadCluster =
  | { readonly cluster: Cluster }
  | { readonly cluster: undefined; readonly problems: readonly PlacedProblem[] };

/** As `readCluster`; `file` names the text in the error. */
export function parseCluster(
  text: string,
  file: string,
  env: Environment = {},
  pinned?: PinnedVersions,
): Cluster {
  const read = readCluster(text, env, pinned);
  if (read.cluster !== undefined) return read.cluster;
  const { problems } = read;
  throw new AppError("config.invalid", problems.map((problem) => problemText(problem, file)).join("\n"), {
    errors: Object.fromEntries(problems.map(({ key, message }) => [key, message])),
    data: { problems },
  });
}

export function problemText({ id, line, key, message }: PlacedProblem, file: string): string {
  return `${file}:${line}: ${key === "" ? "" : `${key} `}${message} [${id}]`;
}

export function readCluster(text: string, env: Environment = {}, pinned?: PinnedVersions): ReadCluster {
  const lines = new LineCounter();
  const document: Document = parseDocument(text, {
    prettyErrors: false,
    // "silent" would take the first of several documents and say nothing of the others.
    logLevel: "error",
    lineCounter: lines,
    merge: true,
  });
  const lineOf = (offset: number): number => lines.linePos(offset).line;
  const [broken] = document.errors;
  if (broken !== undefined) {
    const message =
      broken.code === "MULTIPLE_DOCS"
        ? "holds more than one document; every cluster has a file of its own"
        : broken.code === "DUPLICATE_KEY"
          ? `${keyAt(text, broken.pos[0])} is there twice in one map; keep one of them`
          : `no YAML: ${broken.message}`;
    return {
      cluster: undefined,
      problems: [{ id: "yaml-broken", line: lineOf(broken.pos[0]), key: "", message }],
    };
  }
  const fromEnvironment = fillEnvironment(document, env);
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  const found = firstOf(
    () => fromEnvironment,
    () => schemaProblems(value),
    () => clusterProblems(withPinned(value as ClusterFile, pinned)),
    () => allocationProblems(withVersions(withPinned(value as ClusterFile, pinned))),
  );
  if (found.length === 0) return { cluster: withVersions(withPinned(value as ClusterFile, pinned)) };
  const problems = found.map(({ id, path, message }) => ({
    id,
    line: lineOf(offsetOf(document, path)),
    key: path.length === 0 ? "the file" : path.join("."),
    message,
  }));
  return { cluster: undefined, problems };
}

const keyAt = (text: string, offset: number): string => text.slice(offset).split(/\s*:/)[0] ?? "a key";

/** Later checks rely on what earlier ones have seen to. */
function firstOf(...checks: readonly (() => readonly Problem[])[]): readonly Problem[] {
  for (const check of checks) {
    const problems = check();
    if (problems.length > 0) return problems;
  }
  return [];
}

function allocationProblems(cluster: Cluster): readonly Problem[] {
  try {
    return crowdedControlPlanes(cluster, machinesOf(cluster)).map(({ name, host, beside }) => ({
      id: "spread-impossible",
      path: cluster.nodes[name]?.host === undefined ? ["placement", "spread"] : ["nodes", name, "host"],
      message: `puts ${name} on ${host} beside ${beside}, and placement.spread is required`,
    }));
  } catch (err) {
    if (!isAppError(err, "config.invalid")) throw err;
    const id = err.data["finding"] as FindingId;
    return [
      { id, path: [id === "vmids-exhausted" ? "vmids" : "network"], message: `is too small: ${err.message}` },
    ];
  }
}

function withPinned(cluster: ClusterFile, pinned: PinnedVersions | undefined): ClusterFile {
  const { contract, kubernetes, ...others } = cluster.versions;
  const open = { contract: contract ?? pinned?.contract, kubernetes: kubernetes ?? pinned?.kubernetes };
  return {
    ...cluster,
    versions: { ...others, ...given({ contract: open.contract ?? undefined, kubernetes: open.kubernetes }) },
  };
}

function withVersions(cluster: ClusterFile): Cluster {
  const { talos, kubernetes, contract } = cluster.versions;
  const newest = contractOf(talos).name;
  return {
    ...cluster,
    versions: {
      talos: written(talos),
      kubernetes: written(kubernetes ?? kubernetesRanges[newest].recommended),
      contract: contractOf(contract ?? newest).name,
    },
  };
}

/** As people and registries write it; the file may leave the v out. */
const written = (version: string): string => version.replace(/^v?/, "v");

/** Where the deepest part of the path that is there begins. */
function offsetOf(document: Document, path: Problem["path"]): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isNode(item.key) && String(item.key) === String(key));
      if (pair === undefined) break;
      offset = isNode(pair.key) ? (pair.key.range?.[0] ?? offset) : offset;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(key)];
      offset = isNode(node) ? (node.range?.[0] ?? offset) : offset;
    } else break;
  }
  return offset;
}
