// ${NAME} and ${NAME:-value} in values of cluster.yaml. $${NAME} is the text itself. Keys are left alone, and secrets
// are not for this: they are read through references such as tokenRef.
import { type Document, isScalar, type Node, Scalar, visit } from "yaml";
import type { Problem } from "./problem.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const REFERENCE = /(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

/** Changes `document`; what is not set is told. */
export function fillEnvironment(document: Document, env: Environment): readonly Problem[] {
  const problems: Problem[] = [];
  visit(document, {
    Scalar: (key, node, ancestors) => {
      if (key === "key" || typeof node.value !== "string" || !node.value.includes("${")) return;
      const text = node.value.replace(REFERENCE, (all, escape: string, name: string, fallback?: string) => {
        if (escape !== "") return all.slice(1);
        const value = env[name] ?? fallback;
        if (value !== undefined) return value;
        problems.push({
          id: "environment-missing",
          path: pathOf([...(ancestors as readonly Node[]), node]),
          message: `needs the environment variable ${name}, which is not set`,
        });
        return all;
      });
      // As if it had been written there: without quotes, 3 is a number.
      node.value = node.type === Scalar.PLAIN || node.type === undefined ? plainValue(text) : text;
    },
  });
  return problems;
}

function plainValue(text: string): unknown {
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  if (text === "null") return null;
  return text === "true" || text === "false" ? text === "true" : text;
}

/** Keys and positions on the way to the last of these nodes. */
function pathOf(nodes: readonly unknown[]): readonly (string | number)[] {
  return nodes.flatMap((node, at): (string | number)[] => {
    const parent = nodes[at - 1] as { items?: readonly unknown[] } | undefined;
    if (isPair(node)) return [isScalar(node.key) ? String(node.key.value) : String(node.key)];
    const index = parent?.items?.indexOf(node) ?? -1;
    return index >= 0 ? [index] : [];
  });
}

function isPair(node: unknown): node is { readonly key: unknown } {
  return typeof node === "object" && node !== null && "key" in node && "value" in node && !isScalar(node);
}
