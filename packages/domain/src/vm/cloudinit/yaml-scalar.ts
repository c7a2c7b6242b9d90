// Text inside YAML. PVE writes every value bare; so do we where that is the same text to every YAML reader, and quote
// it where it would be read as something else: names, users and keys come from people.

/** Starts with nothing that means something, holds no `: ` or ` #`, ends with neither space nor colon. */
const PLAIN = /^[A-Za-z0-9_./$+(~^][ -~]*$/;
const MISREAD =
  /^(?:[-+.]?[\d.][\d_.:,eE+-]*(?:[TtZz ].*)?|0[xob][\da-f_]+|[-+]?\.(?:inf|nan)|~|null|true|false|yes|no|on|off|y|n)$/i;

/** A scalar as PVE would write it, or in double quotes. */
export function yamlScalar(text: string): string {
  const plain = PLAIN.test(text) && !MISREAD.test(text) && !/: | #|[:\s]$/.test(text);
  return plain ? text : yamlQuoted(text);
}

/** JSON's strings are YAML's double-quoted ones, once the line ends that only YAML knows are escaped. */
export function yamlQuoted(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** In single quotes, as PVE writes addresses; anything unusual goes into double quotes. */
export function yamlSingleQuoted(text: string): string {
  return /^[\w./:%-]+$/.test(text) ? `'${text}'` : yamlQuoted(text);
}
