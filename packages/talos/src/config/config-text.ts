// Machine configurations as text, laid out as Talos lays them out (Go's YAML writer with four spaces), so that a diff
// against a file of `talosctl` shows differences and not styles.
import { AppError } from "@gpve/contracts/errors.ts";
import { type Document, isMap, isPair, isScalar, parseAllDocuments, stringify, visit } from "yaml";
import type { ConfigDocument, Value } from "./document.ts";
import { freeMaps } from "./free-maps.ts";

const STEP = 4;
const DASH = 2;

export function writeConfig(documents: readonly ConfigDocument[]): string {
  return documents.map((document) => `${writeEntries(document, 0).join("\n")}\n`).join("---\n");
}

/** `source` names the text in errors, which never quote it: it may hold keys. */
export function parseConfig(text: string, source: string): readonly ConfigDocument[] {
  return parseDocuments(text, source).map((value, index) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new AppError("config.invalid", `document ${index + 1} of ${source} is no map of keys and values`);
    }
    return value as ConfigDocument;
  });
}

/** The values of all documents that are not empty. */
export function parseDocuments(text: string, source: string): readonly Value[] {
  const parsed = parseAllDocuments(text, { prettyErrors: false, logLevel: "silent", merge: true });
  // Text without any document comes back as an empty list that carries no errors.
  const documents = [...parsed];
  return documents.flatMap((document, index) => {
    const [error] = document.errors;
    if (error !== undefined) {
      throw new AppError(
        "config.invalid",
        `document ${index + 1} of ${source} is no YAML: ${error.code} at character ${error.pos[0]}`,
      );
    }
    readAsGo(document);
    const value = document.toJS({ maxAliasCount: 100 }) as Value | undefined;
    return value === null || value === undefined ? [] : [value];
  });
}

/**
 * Talos' reader knows what a field is: 1.10 as a label is that text, and not 1.1. And a number that begins with 0 is
 * octal to it, as the permissions of files are written.
 */
function readAsGo(document: Document): void {
  visit(document, {
    Scalar: (_key, node, path) => {
      const { value, source } = node;
      if (source === undefined || (typeof value !== "number" && typeof value !== "boolean")) return;
      const [outer, map, own] = path.slice(-3);
      const isText =
        isPair(own) &&
        own.value === node &&
        isMap(map) &&
        isPair(outer) &&
        isScalar(outer.key) &&
        freeMaps.has(String(outer.key.value));
      if (isText && String(value) !== source) node.value = source;
      else if (/^[-+]?0[0-7]+$/.test(source)) node.value = Number.parseInt(source, 8);
    },
  });
}

function writeEntries(map: { readonly [key: string]: Value }, column: number): string[] {
  return Object.entries(map).flatMap(([key, value]) => {
    const [first = "", ...rest] = writeValue(value, column, nextStop(column));
    const glue = first === "" ? "" : " ";
    return [`${" ".repeat(column)}${writeScalar(key)}:${glue}${first}`, ...rest];
  });
}

/** The text behind "key:" and the lines below it. */
function writeValue(value: Value, column: number, inner: number): string[] {
  if (typeof value === "string" && isBlock(value)) return writeBlock(value, inner);
  if (typeof value !== "object" || value === null) return [writeScalar(value)];
  if (Array.isArray(value)) return value.length === 0 ? ["[]"] : ["", ...writeItems(value, inner)];
  const map = value as { readonly [key: string]: Value };
  return Object.keys(map).length === 0 ? ["{}"] : ["", ...writeEntries(map, nextStop(column))];
}

function writeItems(list: readonly Value[], column: number): string[] {
  const pad = " ".repeat(column);
  return list.flatMap((item) => {
    const nested = nestedLines(item, column + DASH);
    if (nested !== undefined) {
      const [first = "", ...rest] = nested;
      return [`${pad}- ${first.trimStart()}`, ...rest];
    }
    const [first = "", ...rest] = writeValue(item, column, column + DASH);
    return [`${pad}- ${first}`, ...rest];
  });
}

function nestedLines(item: Value, column: number): string[] | undefined {
  if (typeof item !== "object" || item === null || Object.keys(item).length === 0) return undefined;
  return Array.isArray(item)
    ? writeItems(item, column)
    : writeEntries(item as { readonly [key: string]: Value }, column);
}

function nextStop(column: number): number {
  return STEP * Math.floor((column + STEP) / STEP);
}

/** Text of several lines that a literal block carries unchanged. */
function isBlock(text: string): boolean {
  return text.includes("\n") && /^[^\s]/.test(text) && !/[^\P{C}\n\t]|[ \t]\n|\s$(?<!\S\n)/u.test(text);
}

function writeBlock(text: string, column: number): string[] {
  const body = text.endsWith("\n") ? text.slice(0, -1) : text;
  const mark = text.endsWith("\n") ? "|" : "|-";
  return [mark, ...body.split("\n").map((line) => (line === "" ? "" : " ".repeat(column) + line))];
}

/** By the rules of YAML 1.1, which Go's reader still follows in places: "yes" and "0777" stay text. */
function writeScalar(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value);
  return stringify(value, {
    version: "1.1",
    lineWidth: 0,
    blockQuote: false,
    doubleQuotedAsJSON: true,
  }).trimEnd();
}
