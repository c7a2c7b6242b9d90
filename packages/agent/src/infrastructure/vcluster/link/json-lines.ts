// How the agent and processes of ours that outlive it speak: one JSON object on a line.
import type { Duplex } from "node:stream";

const LONGEST_LINE = 4 * 1024 * 1024;

export function sendLine(to: Duplex, message: object): void {
  if (!to.destroyed) to.write(`${JSON.stringify(message)}\n`);
}

/** Whoever sends what is no line of ours is hung up on. */
export function onLines(from: Duplex, take: (message: unknown) => void): void {
  let rest = "";
  from.setEncoding("utf8");
  from.on("data", (chunk: string) => {
    rest += chunk;
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
      const line = rest.slice(0, end);
      rest = rest.slice(end + 1);
      try {
        take(JSON.parse(line));
      } catch (err) {
        from.destroy(err instanceof Error ? err : new Error(String(err)));
        return;
      }
    }
    if (rest.length > LONGEST_LINE) from.destroy(new Error("a line without an end"));
  });
}
