// Elements, attributes and text of an XML document from outside: expands nothing, refuses document types.
import { storageRefused } from "./failures.ts";

export interface XmlElement {
  /** Without its namespace prefix. */
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  readonly text: string;
}

const MAX_DEPTH = 64;

interface OpenElement {
  name: string;
  attributes: Map<string, string>;
  children: XmlElement[];
  text: string;
}

/** An element without a name that holds the document's own. */
export function parseXml(text: string): XmlElement {
  const top: OpenElement = { name: "", attributes: new Map(), children: [], text: "" };
  const open = [top];
  for (const token of tokensOf(text)) {
    const current = open.at(-1) ?? top;
    if (token.kind === "text") {
      current.text += token.text;
      continue;
    }
    const [, closing, name = ""] = /^(\/?)([^\s/]+)/.exec(token.tag) ?? [];
    if (name === "") throw unreadable();
    if (closing === "/") {
      if (open.length < 2 || current.name !== localName(name)) throw storageRefused("the OVF is broken XML");
      open.pop();
      continue;
    }
    const attributes = attributesOf(token.tag.slice(name.length));
    const element: OpenElement = { name: localName(name), attributes, children: [], text: "" };
    current.children.push(element);
    if (!token.tag.endsWith("/")) open.push(element);
    if (open.length > MAX_DEPTH) throw storageRefused("the OVF is nested too deeply");
  }
  if (open.length !== 1) throw storageRefused("the OVF is cut off");
  return top;
}

type Token =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tag"; readonly tag: string };

/** Looks at no character twice: a pattern that tries again takes the square of what somebody else wrote. */
function* tokensOf(text: string): Generator<Token> {
  for (let at = 0; at < text.length;) {
    if (text.charAt(at) !== "<") {
      const end = text.indexOf("<", at);
      const plain = text.slice(at, end < 0 ? text.length : end);
      yield { kind: "text", text: unescape(plain) };
      at += plain.length;
    } else if (text.startsWith("<!--", at)) at = after(text, "-->", at + 4);
    else if (text.startsWith("<?", at)) at = after(text, "?>", at + 2);
    else if (text.startsWith("<![CDATA[", at)) {
      const end = after(text, "]]>", at + 9);
      yield { kind: "text", text: text.slice(at + 9, end - 3) };
      at = end;
    } else {
      const end = tagEnd(text, at + 1);
      yield { kind: "tag", tag: text.slice(at + 1, end) };
      at = end + 1;
    }
  }
}

function after(text: string, mark: string, from: number): number {
  const found = text.indexOf(mark, from);
  if (found < 0) throw unreadable();
  return found + mark.length;
}

/** Where the `>` of a tag is; one in quotes is none. Document types are not read at all. */
function tagEnd(text: string, from: number): number {
  if (text.charAt(from) === "!") throw unreadable();
  for (let at = from; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === ">") return at;
    if (char === "<") break;
    if (char === '"' || char === "'") {
      at = text.indexOf(char, at + 1);
      if (at < 0) break;
    }
  }
  throw unreadable();
}

function unreadable(): Error {
  return storageRefused("the OVF is no XML this software reads");
}

export function attribute(element: XmlElement | undefined, name: string): string {
  return element?.attributes.get(name) ?? "";
}

export function child(element: XmlElement | undefined, name: string): XmlElement | undefined {
  return element?.children.find((each) => each.name === name);
}

/** The text of a child; "" when there is none. */
export function childText(element: XmlElement | undefined, name: string): string {
  return child(element, name)?.text.trim() ?? "";
}

/** Whatever lies below and has one of the names, in the document's order. */
export function descendants(element: XmlElement, ...names: readonly string[]): XmlElement[] {
  return element.children.flatMap((each) => [
    ...(names.includes(each.name) ? [each] : []),
    ...descendants(each, ...names),
  ]);
}

function attributesOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  // The value is optional, so that a name without one is passed over as a whole and not tried again in parts.
  for (const [, name = "", double, single] of text.matchAll(
    /([^\s=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'))?/g,
  )) {
    const value = double ?? single;
    if (value !== undefined) found.set(localName(name), unescape(value));
  }
  return found;
}

function localName(name: string): string {
  return name.slice(name.indexOf(":") + 1);
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const MAX_CODE_POINT = 0x10ffff;

function unescape(text: string): string {
  return text.replaceAll(
    /&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));/g,
    (whole, name: string | undefined, decimal: string | undefined, hex: string | undefined) => {
      if (name !== undefined) return ENTITIES[name] ?? whole;
      const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
      return code <= MAX_CODE_POINT ? String.fromCodePoint(code) : whole;
    },
  );
}
