import { describe } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import { PveReply } from "@gpve/domain/request/handler.ts";
import { agentConnectionConformance, conformanceHandlers } from "./agent-connection-conformance.ts";

describe("a made-up agent", () => {
  const agent = new FakeAgent({
    answer: async ({ decision, params }, signal) => {
      const handler = conformanceHandlers[decision.route as keyof typeof conformanceHandlers];
      if (handler === undefined) {
        const text = `Method '${decision.route.replace("{node}", "n1")}' not implemented`;
        throw new AppError("feature.unsupported", text, { pveStatus: 501 });
      }
      const made: unknown = await (handler as (...args: unknown[]) => unknown)(params, { signal });
      if (!(made instanceof PveReply)) return { data: made };
      const { data, total, changes, download } = made;
      return { data, ...given({ total, changes, download }) };
    },
  });
  agentConnectionConformance("told what to say", () => agent);
});
