// JSON from outside. A few hundred kilobytes of brackets are no burden to the parser, but to everything after it that
// walks the value: the depth is looked at in the text, before there is a value.
import { AppError } from "@gpve/contracts/errors.ts";

export const MAX_JSON_DEPTH = 64;

/** As JSON.parse, which throws SyntaxError; request.invalid for what is nested too deep. */
export function parseBoundedJson(text: string, maxDepth: number = MAX_JSON_DEPTH): unknown {
  if (isDeeper(text, maxDepth))
    throw new AppError("request.invalid", `the JSON is nested deeper than ${maxDepth} levels`);
  return JSON.parse(text);
}

function isDeeper(text: string, maxDepth: number): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === BACKSLASH) at++;
      else if (code === QUOTE) inString = false;
    } else if (code === QUOTE) inString = true;
    else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      if (++depth > maxDepth) return true;
    } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
  }
  return false;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
