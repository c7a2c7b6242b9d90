// Labels and taints of a worker's node that the worker may not give it. Kubernetes' NodeRestriction takes labels of its own
// domains from a kubelet only where they are about the machine, and taints only while the node registers. Talos asks for
// all of them at once as that kubelet, so that one it may not give keeps it from every other one.
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { type Fields, fieldsOf, isObject } from "@gpve/contracts/json-object.ts";
import type { ConfigDocument } from "../config/document.ts";
import type { Machine } from "../cluster/machine.ts";

export interface NodeMarks {
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
}

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

export interface SeenMarks extends NodeMarks {
  /** What we gave it last: that is ours to take away. */
  readonly own: NodeMarks;
}

/** On nodes that were marked by us. */
const OWN_NOTE = "gpve.io/marks";
/** What Talos takes for its own on a node, and would take away again as a kubelet, which may not. */
const TALOS_LABELS = "talos.dev/owned-labels";
const TALOS_TAINTS = "talos.dev/owned-taints";

const NONE: NodeMarks = { labels: {}, taints: [] };
const OF_MACHINES =
  /^(?:kubernetes\.io\/(?:hostname|arch|os)|beta\.kubernetes\.io\/(?:arch|os|instance-type)|(?:failure-domain\.beta|topology)\.kubernetes\.io\/(?:region|zone)|(?:[a-z0-9.-]+\.)?(?:kubelet|node)\.kubernetes\.io\/.*)$/;

/** Whether a kubelet may give its own node this label. */
export function isOfKubelet(label: string): boolean {
  const [domain = "", name] = label.split("/");
  if (name === undefined || !/(?:^|\.)(?:kubernetes|k8s)\.io$/.test(domain)) return true;
  return OF_MACHINES.test(label);
}

/** "gpu:NoSchedule", ":NoSchedule" or "NoSchedule", by key, as the file has them. */
const taintsOf = (taints: Readonly<Record<string, string>>): readonly Taint[] =>
  Object.entries(taints).map(([key, text]) => {
    const at = text.lastIndexOf(":");
    const value = text.slice(0, Math.max(0, at));
    return { key, ...(value === "" ? {} : { value }), effect: text.slice(at + 1) };
  });

/** Control planes are administrators: Talos gives theirs itself. */
export function wantedMarks({
  role,
  labels,
  taints,
}: Pick<Machine, "role" | "labels" | "taints">): NodeMarks {
  if (role === "controlplane") return NONE;
  return {
    labels: Object.fromEntries(Object.entries(labels).filter(([label]) => !isOfKubelet(label))),
    taints: taintsOf(taints),
  };
}

/** What Talos may be told of: a label that a worker may not give its node would keep it from giving any. */
export const ownLabels = ({
  role,
  labels,
}: Pick<Machine, "role" | "labels">): Readonly<Record<string, string>> =>
  role === "controlplane"
    ? labels
    : Object.fromEntries(Object.entries(labels).filter(([label]) => isOfKubelet(label)));

/** For a kubelet's own configuration: a worker taints its node while that registers, and not later. */
export function registeredTaints({
  role,
  taints,
}: Pick<Machine, "role" | "taints">): { readonly registerWithTaints: readonly ConfigDocument[] } | undefined {
  const all = role === "controlplane" ? [] : taintsOf(taints);
  return all.length === 0 ? undefined : { registerWithTaints: all.map((taint) => ({ ...taint })) };
}

export function seenMarks(node: Fields): SeenMarks {
  const { labels, annotations } = fieldsOf(node["metadata"]);
  return {
    labels: Object.fromEntries(
      Object.entries(fieldsOf(labels)).filter(
        (entry): entry is [string, string] => typeof entry[1] === "string",
      ),
    ),
    taints: listOf(fieldsOf(node["spec"])["taints"]).flatMap(taintIn),
    own: noted(fieldsOf(annotations)[OWN_NOTE]),
  };
}

export function isMarked(wanted: NodeMarks, seen: SeenMarks | undefined): boolean {
  const { own, labels, taints } = seen ?? { ...NONE, own: NONE };
  return (
    canonicalJson(own) === canonicalJson(wanted) &&
    Object.entries(wanted.labels).every(([label, value]) => labels[label] === value) &&
    wanted.taints.every((taint) => taints.some((each) => taintText(each) === taintText(taint)))
  );
}

/** What of ours is not wanted any more. */
export function strayMarks(wanted: NodeMarks, own: NodeMarks = NONE): NodeMarks {
  return {
    labels: Object.fromEntries(
      Object.entries(own.labels).filter(([label]) => !Object.hasOwn(wanted.labels, label)),
    ),
    taints: own.taints.filter((taint) => !wanted.taints.some((each) => isSame(each, taint))),
  };
}

/** As kubectl spells it. */
export const taintText = ({ key, value, effect }: Taint): string =>
  `${key}${value === undefined ? "" : `=${value}`}:${effect}`;

/** A merge patch; whoever changed the node meanwhile makes it fail. */
export function marksPatch(node: Fields, wanted: NodeMarks): Fields {
  const metadata = fieldsOf(node["metadata"]);
  const annotations = fieldsOf(metadata["annotations"]);
  const stray = strayMarks(wanted, noted(annotations[OWN_NOTE]));
  const kept = listOf(fieldsOf(node["spec"])["taints"]).filter((each) =>
    taintIn(each).every(
      (taint) => ![...stray.taints, ...wanted.taints].some((other) => isSame(other, taint)),
    ),
  );
  const isNothing = Object.keys(wanted.labels).length + wanted.taints.length === 0;
  return {
    metadata: {
      resourceVersion: metadata["resourceVersion"],
      labels: {
        ...Object.fromEntries(Object.keys(stray.labels).map((label) => [label, null])),
        ...wanted.labels,
      },
      annotations: {
        [OWN_NOTE]: isNothing ? null : canonicalJson(wanted),
        [TALOS_TAINTS]: null,
        ...withoutClaims(annotations[TALOS_LABELS]),
      },
    },
    spec: { taints: [...kept, ...wanted.taints] },
  };
}

function withoutClaims(claimed: unknown): Fields {
  const labels = parsed(claimed);
  if (!Array.isArray(labels)) return {};
  return {
    [TALOS_LABELS]: JSON.stringify((labels as unknown[]).filter((each) => isOfKubelet(String(each)))),
  };
}

function noted(note: unknown): NodeMarks {
  const tree = parsed(note);
  if (!isObject(tree)) return NONE;
  const { labels, taints } = seenMarks({
    metadata: { labels: tree["labels"] },
    spec: { taints: tree["taints"] },
  });
  return { labels, taints };
}

function parsed(text: unknown): unknown {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Somebody else's: as if there were none.
    return undefined;
  }
}

function taintIn(taint: unknown): readonly Taint[] {
  const { key, value, effect } = fieldsOf(taint);
  if (typeof key !== "string" || typeof effect !== "string") return [];
  return [{ key, ...(typeof value === "string" && value !== "" ? { value } : {}), effect }];
}

/** A node has one of each key and effect. */
const isSame = (a: Taint, b: Taint): boolean => a.key === b.key && a.effect === b.effect;
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);
