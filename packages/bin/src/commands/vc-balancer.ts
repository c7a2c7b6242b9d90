// `gpve vc-balancer ADDRESS AUTHORITY`: passes workers of a cluster of several replicas on to one that serves. The agent
// starts it in the network of this node's replica; it outlives the agent.
import { readFileSync } from "node:fs";
import { ApiBalancer } from "@gpve/agent/infrastructure/vcluster/balancer/api-balancer.ts";
import { readinessAsker } from "@gpve/agent/infrastructure/vcluster/balancer/ask-readiness.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { BALANCER_PORT } from "@gpve/domain/vcluster/control-plane.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { Io } from "../io.ts";
import { untilSignalled } from "../until-signalled.ts";

export async function vcBalancer(args: readonly string[], _io: Io): Promise<number> {
  const [own, authority] = args;
  if (own === undefined || authority === undefined)
    throw new AppError(
      "request.invalid",
      "gpve vc-balancer needs the address of this node's replica and the file of the cluster's authority; its agent starts it with both",
    );
  const isReady = readinessAsker(readFileSync(authority, "utf8"));
  const balancer = new ApiBalancer({ own, isReady, clock: systemClock });
  await balancer.listen({ host: own, port: BALANCER_PORT });
  return untilSignalled(async () => balancer.close());
}
