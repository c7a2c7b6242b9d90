// Colour only on a terminal, never when NO_COLOR (no-color.org) is set.
import type { CliIo, OutStream } from "../io.ts";

export type Paint = (text: string) => string;

export interface Colours {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly red: Paint;
  readonly green: Paint;
  readonly yellow: Paint;
}

const plain: Paint = (text) => text;
const ansi =
  (on: number, off: number): Paint =>
  (text) =>
    `\u001b[${on}m${text}\u001b[${off}m`;

export function coloursFor(stream: OutStream, io: CliIo, wanted: boolean): Colours {
  const refused = (io.env["NO_COLOR"] ?? "") !== "" || io.env["TERM"] === "dumb";
  if (!wanted || refused || !stream.isTTY) {
    return { bold: plain, dim: plain, red: plain, green: plain, yellow: plain };
  }
  return {
    bold: ansi(1, 22),
    dim: ansi(2, 22),
    red: ansi(31, 39),
    green: ansi(32, 39),
    yellow: ansi(33, 39),
  };
}

const GOOD = new Set(["online", "running", "OK", "ok", "succeeded", "active", "yes", "create"]);
const BAD = new Set(["offline", "failed", "error", "refused", "unknown", "internal-error"]);
const FAIR = new Set(["paused", "queued", "warnings", "cancelled", "update"]);

/** Paints words that say how something is. */
export function paintState(colours: Colours, text: string): string {
  if (GOOD.has(text)) return colours.green(text);
  if (BAD.has(text)) return colours.red(text);
  if (FAIR.has(text) || text.startsWith("WARNINGS")) return colours.yellow(text);
  return text;
}
