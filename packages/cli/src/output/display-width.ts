// How many terminal cells a text takes, and texts made safe for a terminal.

const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const ZERO = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;

export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segmenter.segment(text)) width += cells(segment);
  return width;
}

/** Cut to `width` cells, with an ellipsis when something was lost. */
export function fit(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const { segment } of segmenter.segment(text)) {
    const size = cells(segment);
    if (used + size > width - 1) break;
    kept += segment;
    used += size;
  }
  return `${kept}…`;
}

/** Server data must not steer the terminal: control characters are shown, not sent. */
export function printable(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what this is about
  return text.replace(/[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g, (char) => {
    if (char === "\n") return "\\n";
    if (char === "\t") return " ";
    return `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}

function cells(grapheme: string): number {
  if (ZERO.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}
