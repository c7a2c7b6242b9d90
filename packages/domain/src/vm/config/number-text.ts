/**
 * A property string that was read and printed again, with its numbers as they were written: `rate=1.50` stays that, as
 * clients compare texts. `before` is what was read.
 */
export function keepNumberText(before: string, after: string): string {
  const written = new Map(before.split(",").map((part) => splitPart(part)));
  return after
    .split(",")
    .map((part) => {
      const [key, value] = splitPart(part);
      const text = written.get(key);
      if (text === undefined || !isNumber(text) || !isNumber(value)) return part;
      return text !== value && Number(text) === Number(value) ? `${key}=${text}` : part;
    })
    .join(",");
}

function splitPart(part: string): [string, string] {
  const at = part.indexOf("=");
  return at < 0 ? ["", part] : [part.slice(0, at), part.slice(at + 1)];
}

function isNumber(text: string): boolean {
  return /^\d+(?:\.\d+)?$/.test(text);
}
