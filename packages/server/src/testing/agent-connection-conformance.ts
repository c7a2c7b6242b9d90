// What everyone who calls a node may rely on, however it is reached: run on the fake, in one process and over gRPC.
import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { decided } from "@gpve/domain/access/testing/decided.ts";
import type { AgentCall, AgentConnection } from "@gpve/domain/node/agent-port.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";

/** The methods that the node n1 has. */
export const conformanceHandlers: PveHandlers = {
  "GET /nodes/{node}/version": (params) => ({ version: "9", node: params.node }),
  "GET /nodes/{node}/dns": () => {
    throw new AppError("request.invalid", "Parameter verification failed.", {
      errors: { a: "b" },
      pveStatus: 400,
    });
  },
  "GET /nodes/{node}/tasks": () => new PveReply({ data: [1], total: 7, changes: "c" }),
  "GET /nodes/{node}/tasks/{upid}/log": () =>
    new PveReply({
      download: {
        contentType: "text/plain",
        fileName: "log.txt",
        body: (async function* () {
          for (const word of ["one ", "two"]) yield await Promise.resolve(Buffer.from(word));
        })(),
      },
    }),
  "GET /nodes/{node}/report": (_params, ctx) =>
    new Promise((_resolve, reject) => ctx.signal.addEventListener("abort", () => reject(new Error("gone")))),
};

export function agentCall(route: string, params: Record<string, unknown> = { node: "n1" }): AgentCall {
  return { decision: decided(route, params), params, requestId: "r1", clientAddress: "127.0.0.1" };
}

export function agentConnectionConformance(name: string, way: () => AgentConnection): void {
  const forever = new AbortController().signal;

  test(`${name}: gives answers, totals and downloads as the node's methods gave them`, async () => {
    expect((await way().call(agentCall("GET /nodes/{node}/version"), forever)).data).toEqual({
      version: "9",
      node: "n1",
    });
    expect(await way().call(agentCall("GET /nodes/{node}/tasks"), forever)).toEqual({
      data: [1],
      total: 7,
      changes: "c",
    });
    const { download } = await way().call(agentCall("GET /nodes/{node}/tasks/{upid}/log"), forever);
    let text = "";
    for await (const chunk of download?.body ?? []) text += Buffer.from(chunk).toString();
    expect({ ...download, body: text }).toEqual({
      contentType: "text/plain",
      fileName: "log.txt",
      body: "one two",
    });
  });

  test(`${name}: fails as the node's method failed, and where a call came to the wrong node`, async () => {
    await expect(way().call(agentCall("GET /nodes/{node}/dns"), forever)).rejects.toMatchObject({
      code: "request.invalid",
      errors: { a: "b" },
      pveStatus: 400,
    });
    await expect(way().call(agentCall("GET /nodes/{node}/apt"), forever)).rejects.toMatchObject({
      message: "Method 'GET /nodes/n1/apt' not implemented",
      pveStatus: 501,
    });
    const astray = agentCall("GET /nodes/{node}/version", { node: "n2" });
    await expect(way().call(astray, forever)).rejects.toThrow('call for node "n2" arrived at node n1');
  });

  test(`${name}: ends a call that nobody waits for, before and while it runs`, async () => {
    const call = agentCall("GET /nodes/{node}/version");
    await expect(way().call(call, AbortSignal.abort())).rejects.toMatchObject({
      code: "operation.cancelled",
    });
    const cancel = new AbortController();
    const pending = way().call(agentCall("GET /nodes/{node}/report"), cancel.signal);
    setTimeout(() => cancel.abort(), 50);
    await expect(pending).rejects.toMatchObject({ code: "operation.cancelled" });
  });
}
