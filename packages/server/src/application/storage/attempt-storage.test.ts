import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable, type AgentCall, type AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import { createStorageHandlers } from "../../presentation/http/storage/storage-handlers.ts";
import { nodeCalls } from "../../testing/node-calls.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { attemptStorage } from "./attempt-storage.ts";
import { StorageDefinitions } from "./storage-definitions.ts";

const definition = newStorageDefinition("d1", "dir", { path: "/srv/d1" });
const ctx = {
  actor: { userid: "a@pve", authid: "a@pve" },
  requestId: "r",
  clientAddress: "::1",
  signal: new AbortController().signal,
} as unknown as RequestContext;
const answering = (answer: (call: AgentCall) => unknown): AgentDirectory => ({
  connection: (node) =>
    node === "n1" ? { node, call: async (call) => ({ data: answer(call) }) } : undefined,
});
const failing = (err: Error): AgentDirectory =>
  answering(() => {
    throw err;
  });

describe("a new storage", () => {
  it("is tried on the server's own node, in the name of who wants it", async () => {
    const calls: AgentCall[] = [];
    const agents = answering((call) => (calls.push(call), null));
    await attemptStorage({ calls: nodeCalls(agents), node: "n1" }, definition, ctx);
    expect(calls).toMatchObject([
      {
        decision: { route: "POST /gpve/nodes/{node}/storage-checks", actor: ctx.actor },
        params: { node: "n1", definition },
      },
    ]);
    await attemptStorage({ calls: nodeCalls(agents), node: "n2" }, definition, ctx);
    expect(calls).toHaveLength(1);
  });

  it("is refused with what the node says, and not because nobody can say", async () => {
    const away = new AppError("node.unavailable", "unable to activate storage 'd1'", { pveStatus: 500 });
    const attempt = (agents: AgentDirectory) =>
      attemptStorage({ calls: nodeCalls(agents), node: "n1" }, definition, ctx);
    await expect(attempt(failing(away))).rejects.toMatchObject({
      message: "unable to activate storage 'd1'",
      code: "request.invalid",
    });
    const twice = new AppError("request.invalid", "uses directory x for multiple content types");
    await expect(attempt(failing(twice))).rejects.toThrow("uses directory x");
    await attempt(failing(new AgentUnreachable(595, "away")));
    await attempt(failing(new AppError("feature.unsupported", "not implemented")));
  });

  it("is not kept when it cannot be used", async () => {
    const storages = new StorageDefinitions(new MemoryRecords());
    let trouble: AppError | undefined = new AppError("request.invalid", "no mount point", { pveStatus: 500 });
    const handlers = createStorageHandlers({
      storages,
      checkPlace: () => Promise.resolve(),
      attempt: async () => {
        if (trouble !== undefined) throw trouble;
      },
    });
    const create = async () =>
      handlers["POST /storage"]?.({ storage: "d1", type: "dir", path: "/srv/d1" }, ctx);
    await expect(create()).rejects.toThrow("create storage failed: no mount point");
    expect(storages.definitions()).toEqual([]);
    trouble = undefined;
    expect(await create()).toEqual({ storage: "d1", type: "dir" });
    await expect(create()).rejects.toThrow("create storage failed: storage ID 'd1' already defined");
  });
});
