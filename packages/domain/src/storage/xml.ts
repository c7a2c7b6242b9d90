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

const TOKEN =
  /<!--[\s\S]*?-->|<\?[\s\S]*?\?>|<!\[CDATA\[([\s\S]*?)\]\]>|<(\/?)([^\s<>/!?]+)((?:[^<>"']|"[^"]*"|'[^']*')*?)(\/?)>|([^<]+)|</g;

/** An element without a name that holds the document's own. */
export function parseXml(text: string): XmlElement {
  const top: OpenElement = { name: "", attributes: new Map(), children: [], text: "" };
  const open = [top];
  for (const [token, cdata, closing, name = "", rest = "", empty, plain] of text.matchAll(TOKEN)) {
    const current = open.at(-1) ?? top;
    if (plain !== undefined) current.text += unescape(plain);
    else if (cdata !== undefined) current.text += cdata;
    else if (token === "<") throw storageRefused("the OVF is no XML this software reads");
    else if (token.startsWith("<!--") || token.startsWith("<?")) continue;
    else if (closing === "/") {
      if (open.length < 2 || current.name !== localName(name)) throw storageRefused("the OVF is broken XML");
      open.pop();
    } else {
      const element: OpenElement = {
        name: localName(name),
        attributes: attributesOf(rest),
        children: [],
        text: "",
      };
      current.children.push(element);
      if (empty !== "/") open.push(element);
      if (open.length > MAX_DEPTH) throw storageRefused("the OVF is nested too deeply");
    }
  }
  if (open.length !== 1) throw storageRefused("the OVF is cut off");
  return top;
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
  for (const [, name = "", double, single] of text.matchAll(/([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    found.set(localName(name), unescape(double ?? single ?? ""));
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
