// Label and field selectors, Kubernetes' syntax: `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
// Field selectors know only =, == and !=.
import type { AppError } from "../errors.ts";
import { invalidField } from "../invalid-field.ts";

export type Requirement =
  | { readonly key: string; readonly op: "in" | "notin"; readonly values: readonly string[] }
  | { readonly key: string; readonly op: "exists" | "missing" };

export type Selector = readonly Requirement[];

const KEY = /^[A-Za-z0-9]([A-Za-z0-9._/-]{0,314}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$/;

export function parseLabelSelector(text: string): Selector {
  return splitTerms(text, "labelSelector").map(parseLabelTerm);
}

/** `allowed` are the fields a kind lets itself be selected by. */
export function parseFieldSelector(text: string, allowed: readonly string[]): Selector {
  return splitTerms(text, "fieldSelector").map((term) => {
    const match = /^([^=!]+)(==|=|!=)(.*)$/s.exec(term);
    if (match === null) throw bad("fieldSelector", `'${term}' is not FIELD=VALUE or FIELD!=VALUE`);
    const key = (match[1] ?? "").trim();
    if (!allowed.includes(key)) {
      throw bad("fieldSelector", `field '${key}' cannot be selected by; use one of ${allowed.join(", ")}`);
    }
    return { key, op: match[2] === "!=" ? "notin" : "in", values: [(match[3] ?? "").trim()] };
  });
}

export function formatSelector(selector: Selector): string {
  return selector
    .map((term) => {
      switch (term.op) {
        case "exists":
          return term.key;
        case "missing":
          return `!${term.key}`;
        case "in":
        case "notin": {
          const only = term.values.length === 1 ? term.values[0] : undefined;
          if (only !== undefined) return `${term.key}${term.op === "in" ? "=" : "!="}${only}`;
          return `${term.key} ${term.op} (${term.values.join(",")})`;
        }
      }
    })
    .join(",");
}

/** As Kubernetes: `!=` and `notin` also match objects that lack the key. */
export function matches(selector: Selector, valueOf: (key: string) => string | undefined): boolean {
  return selector.every((term) => {
    const value = valueOf(term.key);
    switch (term.op) {
      case "exists":
        return value !== undefined;
      case "missing":
        return value === undefined;
      case "in":
        return value !== undefined && term.values.includes(value);
      case "notin":
        return value === undefined || !term.values.includes(value);
    }
  });
}

function parseLabelTerm(term: string): Requirement {
  const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(term);
  if (set !== null) {
    const values = (set[3] ?? "").split(",").map((value) => label(value.trim()));
    return { key: keyOf(set[1] ?? ""), op: set[2] === "in" ? "in" : "notin", values };
  }
  const compare = /^([^=!]+)(==|=|!=)([^=!]*)$/.exec(term);
  if (compare !== null) {
    const value = label((compare[3] ?? "").trim());
    return {
      key: keyOf((compare[1] ?? "").trim()),
      op: compare[2] === "!=" ? "notin" : "in",
      values: [value],
    };
  }
  if (term.startsWith("!")) return { key: keyOf(term.slice(1).trim()), op: "missing" };
  return { key: keyOf(term), op: "exists" };
}

function splitTerms(text: string, parameter: string): string[] {
  if (text.length > 4096) throw bad(parameter, "the selector is longer than 4096 characters");
  const terms: string[] = [];
  let depth = 0;
  let current = "";
  for (const char of text) {
    if (char === "(") depth++;
    if (char === ")") depth--;
    if (depth < 0 || depth > 1) throw bad(parameter, "unbalanced parentheses");
    if (char === "," && depth === 0) {
      terms.push(current.trim());
      current = "";
    } else {
      current += char;
    }
  }
  if (depth !== 0) throw bad(parameter, "unbalanced parentheses");
  terms.push(current.trim());
  if (terms.length === 1 && terms[0] === "") return [];
  if (terms.includes("")) throw bad(parameter, "empty term between commas");
  return terms;
}

function keyOf(text: string): string {
  if (!KEY.test(text)) throw bad("labelSelector", `'${text}' is not a label key`);
  return text;
}

function label(text: string): string {
  if (text.length > 63 || !LABEL_VALUE.test(text)) {
    throw bad("labelSelector", `'${text}' is not a label value`);
  }
  return text;
}

function bad(parameter: string, text: string): AppError {
  return invalidField(parameter, text, `cannot read ${parameter}: ${text}`);
}
