// `gpve vc-proxy FOLDER`: the way in to this node's virtual clusters, in a process of its own that outlives the agent. The
// agent starts it and hands its socket over; nobody else needs to.
import { PROXY_CONTROL_FD } from "@gpve/agent/infrastructure/vcluster/proxy/proxy-process.ts";
import { serveProxy } from "@gpve/agent/infrastructure/vcluster/proxy/serve-proxy.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { Io } from "../io.ts";
import { untilSignalled } from "../until-signalled.ts";

export async function vcProxy(args: readonly string[], io: Io): Promise<number> {
  const [, port = "0"] = args;
  const sharedPort = Number(port);
  if (!Number.isInteger(sharedPort)) throw new AppError("request.invalid", `'${port}' is no port`);
  const proxy = await serveProxy({
    control: { fd: PROXY_CONTROL_FD },
    clock: systemClock,
    say: (line) => io.err(line),
    ...(sharedPort === 0 ? {} : { sharedPort }),
  });
  return untilSignalled(async () => proxy.close());
}
