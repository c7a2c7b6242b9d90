// cluster.yaml from text to a checked value with defaults. All problems are told at once, each with its line.
import { AppError } from "@gpve/contracts/errors.ts";
import { type Document, isMap, isNode, isSeq, LineCounter, parseDocument } from "yaml";
import { contractOf, type ContractName } from "../contract/contracts.ts";
import { kubernetesRanges } from "../contract/kubernetes-versions.ts";
import { clusterProblems } from "./cluster-rules.ts";
import type { ClusterFile } from "./cluster-schema.ts";
import type { Problem } from "./problem.ts";
import { schemaProblems } from "./schema-problems.ts";

export interface Cluster extends ClusterFile {
  readonly versions: { readonly talos: string; readonly kubernetes: string; readonly contract: ContractName };
}

/** `file` names the text in errors. */
export function parseCluster(text: string, file: string): Cluster {
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, logLevel: "silent", lineCounter: lines });
  const at = (offset: number): string => `${file}:${lines.linePos(offset).line}`;
  const [broken] = document.errors;
  if (broken !== undefined) {
    throw new AppError("config.invalid", `${at(broken.pos[0])}: no YAML: ${broken.message}`);
  }
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  const fromSchema = schemaProblems(value);
  const problems = fromSchema.length > 0 ? fromSchema : clusterProblems(value as ClusterFile);
  if (problems.length > 0) {
    const texts = problems.map(({ path, message }) => {
      const name = path.length === 0 ? "the file" : path.join(".");
      return { name, message, text: `${at(offsetOf(document, path))}: ${name} ${message}` };
    });
    throw new AppError("config.invalid", texts.map(({ text: line }) => line).join("\n"), {
      errors: Object.fromEntries(texts.map(({ name, message }) => [name, message])),
    });
  }
  return withVersions(value as ClusterFile);
}

function withVersions(cluster: ClusterFile): Cluster {
  const { talos, kubernetes, contract } = cluster.versions;
  const newest = contractOf(talos).name;
  return {
    ...cluster,
    versions: {
      talos,
      kubernetes: kubernetes ?? kubernetesRanges[newest].recommended,
      contract: contractOf(contract ?? newest).name,
    },
  };
}

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
