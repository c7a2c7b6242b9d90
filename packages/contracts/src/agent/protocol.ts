// Versions of the agent protocol. A side states what it can speak; the highest common version is used.
import { AppError } from "../errors.ts";

export interface ProtocolRange {
  readonly min: number;
  readonly max: number;
}

/** What this build speaks. Raise `max` with every addition that needs to be negotiated. */
export const AGENT_PROTOCOL: ProtocolRange = { min: 3, max: 4 };

/** From this version on an agent that stops says so, and servers wait for it. */
export const GOODBYE_SINCE = 4;

/** The version both sides will speak. Throws with a text that says which side is too old. */
export function agreeProtocol(server: ProtocolRange, agent: ProtocolRange): number {
  if (
    !Number.isInteger(agent.min) ||
    !Number.isInteger(agent.max) ||
    agent.min < 1 ||
    agent.max < agent.min
  ) {
    throw new AppError("request.invalid", `agent states no valid protocol range (${agent.min}-${agent.max})`);
  }
  if (agent.max < server.min) {
    throw new AppError(
      "feature.unsupported",
      `agent speaks protocol ${agent.min}-${agent.max}, this server needs at least ${server.min}: upgrade the agent`,
    );
  }
  if (agent.min > server.max) {
    throw new AppError(
      "feature.unsupported",
      `agent speaks protocol ${agent.min}-${agent.max}, this server at most ${server.max}: upgrade the server`,
    );
  }
  return Math.min(agent.max, server.max);
}
