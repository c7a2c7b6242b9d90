// The process that keeps a node's lines to standbys, in this one, for every agent that the node has.
import { rmSync } from "node:fs";
import type { GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { LineProcessDeps } from "../infrastructure/vcluster/line/line-process.ts";
import { serveLines } from "../infrastructure/vcluster/line/serve-lines.ts";

/** `socket`: where agents speak to it. */
export function keptLines(socket: string) {
  let kept: { close(): void } | undefined;
  const starts: GuestStart[] = [];
  const end = (): void => {
    kept?.close();
    kept = undefined;
  };
  const running = {
    get hasExited() {
      return kept === undefined;
    },
    socketPath: () => socket,
    stop: async () => end(),
  };
  const processes = {
    get: () => (kept === undefined ? undefined : running),
    forget: async () => undefined,
    start: async (start: GuestStart) => {
      starts.push(start);
      rmSync(socket, { force: true });
      kept = await serveLines({ control: { path: socket }, clock: systemClock, say: () => undefined });
      return running;
    },
  } as unknown as LineProcessDeps["processes"];
  return { processes, starts, end, runs: () => kept !== undefined };
}
