// `gpve vc-line`: the lines between stores of virtual clusters and their standbys on other nodes, in a process of its own that
// outlives the agent. The agent starts it and hands its socket over; nobody else needs to.
import { LINE_CONTROL_FD } from "@gpve/agent/infrastructure/vcluster/line/line-process.ts";
import { serveLines } from "@gpve/agent/infrastructure/vcluster/line/serve-lines.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { Io } from "../io.ts";
import { untilSignalled } from "../until-signalled.ts";

export async function vcLine(_args: readonly string[], io: Io): Promise<number> {
  const lines = await serveLines({
    control: { fd: LINE_CONTROL_FD },
    clock: systemClock,
    say: (line) => io.err(line),
  });
  return untilSignalled(async () => lines.close());
}
