// What agent and proxy tell each other: one JSON object on a line. The process that keeps lines to standbys speaks so too.
import type { Duplex } from "node:stream";
import type { FrontActivity, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { ElsewhereRoute } from "@gpve/domain/vcluster/cluster-places.ts";

export type ToProxy =
  | {
      readonly seq: number;
      readonly host: string;
      readonly routes: readonly FrontRoute[];
      /** Absent: as it was told last. */
      readonly elsewhere?: readonly ElsewhereRoute[];
    }
  | { readonly refuse: string };

export type FromProxy =
  | { readonly ack: number }
  | { readonly wake: string }
  | { readonly seen: Readonly<Record<string, FrontActivity>> };

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
