// A configuration and the patches on it, in order. The result knows of each value where it comes from.
import { AppError } from "@gpve/contracts/errors.ts";
import { parseDocuments } from "../config/config-text.ts";
import type { ConfigDocument, Value } from "../config/document.ts";
import { deleteFrom, isUnsetField, takeMarks } from "./delete-marks.ts";
import { applyJsonPatch } from "./json-patch.ts";
import { V1ALPHA1 } from "./merge-rules.ts";
import { mergeDocuments } from "./merge-trees.ts";
import { childOf, plainMap, textOf, type Traced, traceMap, type TracedMap } from "./traced-tree.ts";

export interface Patch {
  /** Names it in errors and as the origin of values: a file, a place in cluster.yaml. */
  readonly source: string;
  readonly text: string;
}

export interface PatchedConfig {
  readonly documents: readonly ConfigDocument[];
  /** Source of the value at `path` of a document; undefined when there is none. */
  readonly originOf: (document: string, path: readonly string[]) => string | undefined;
}

/** `base` names the origin of what no patch has touched. */
export function applyPatches(
  documents: readonly ConfigDocument[],
  patches: readonly Patch[],
  base: string,
): PatchedConfig {
  const config = documents.map((document) => traceMap(document, base));
  for (const patch of patches) applyPatch(config, patch);
  return {
    documents: config.map(plainMap),
    originOf: (document, path) => {
      let node: Traced | undefined = config.find((candidate) => documentId(candidate) === document);
      for (const key of path) node = node === undefined ? undefined : childOf(node, key);
      return node?.source;
    },
  };
}

function applyPatch(config: TracedMap[], patch: Patch): void {
  const values = parseDocuments(patch.text, patch.source);
  const [first] = values;
  if (values.length === 1 && Array.isArray(first)) {
    const [document] = config;
    if (document === undefined || config.length > 1) {
      throw new AppError(
        "feature.unsupported",
        `${patch.source} is a JSON patch (RFC 6902), which Talos does not take for configurations of several documents; write it as a strategic merge patch`,
      );
    }
    applyJsonPatch(document, first as readonly Value[], patch.source);
    return;
  }
  for (const value of values) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new AppError("config.invalid", `the patch ${patch.source} has a document that is no map`);
    }
    mergeInto(config, traceMap(value as ConfigDocument, patch.source));
  }
}

const identityKeys: ReadonlySet<string> = new Set(["apiVersion", "kind", "name"]);

function mergeInto(config: TracedMap[], document: TracedMap): void {
  const id = documentId(document);
  const { deletions, rest } = takeMarks(document);
  for (const deletion of deletions) {
    const index = config.findIndex((candidate) => documentId(candidate) === id);
    const target = config[index];
    // Of a document that only other machines have.
    if (target === undefined) continue;
    if (deletion.path.length === 0) {
      if (id === V1ALPHA1) {
        throw new AppError(
          "config.invalid",
          `${document.source} deletes the v1alpha1 document, which must stay`,
        );
      }
      config.splice(index, 1);
    } else if (!deleteFrom(target, deletion) && !isUnsetField(kindOf(target), target, deletion)) {
      const where = [id, ...deletion.path].join(" ");
      throw new AppError("config.invalid", `${document.source} deletes ${where}, which is not there`);
    }
  }
  if (rest === undefined) return;
  const existing = config.find((candidate) => documentId(candidate) === id);
  const isBare = [...rest.entries.keys()].every((key) => identityKeys.has(key));
  if (existing === undefined) {
    // What is left of a deletion is no wish for a document.
    if (deletions.length === 0 || !isBare) config.push(rest);
  } else mergeDocuments(kindOf(rest), existing, rest);
}

/** "v1alpha1", "KubeletConfig" or "VolumeConfig/EPHEMERAL" for documents of Talos' own API version. */
export function documentId(document: TracedMap): string {
  const apiVersion = textOf(document.entries.get("apiVersion"));
  const kind = textOf(document.entries.get("kind"));
  if (apiVersion === undefined && kind === undefined) return V1ALPHA1;
  if (apiVersion === undefined || kind === undefined) {
    throw new AppError(
      "config.invalid",
      `a document of ${document.source} has only one of apiVersion and kind; it needs both, or none for the v1alpha1 document`,
    );
  }
  const name = textOf(document.entries.get("name"));
  const typed = apiVersion === "v1alpha1" ? kind : `${apiVersion}/${kind}`;
  return name === undefined ? typed : `${typed}/${name}`;
}

function kindOf(document: TracedMap): string {
  return textOf(document.entries.get("kind")) ?? V1ALPHA1;
}
