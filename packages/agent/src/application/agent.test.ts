import { describe, expect, it } from "vitest";
import { decided } from "@gpve/domain/access/testing/decided.ts";
import { createAgent, type OwnHandlers } from "./agent.ts";

const LOG = "GET /gpve/nodes/{node}/vms/{vmid}/log";
const SHELL = "TUNNEL /gpve/nodes/{node}/shell";
const seen: unknown[] = [];
const agent = createAgent({
  node: "n1",
  handlers: [],
  extensions: {
    [LOG]: (params) => {
      seen.push(params);
      return { lines: [] };
    },
  },
  tunnels: {
    [SHELL]: async (params, authid) => {
      seen.push({ ...params, authid });
      return { opened: { kind: "shell" }, output: nothing() };
    },
  },
  validate: (_route, params) => params,
  accessOf: () => undefined as never,
  logFor: () => undefined as never,
});
const { signal } = new AbortController();
const actor = { userid: "joe@pve", authid: "joe@pve" };
const call = (params: Record<string, unknown>, route: string = LOG) =>
  agent.call({ decision: decided(route, params, actor), params, requestId: "r", clientAddress: "" }, signal);
const open = (params: Record<string, unknown>, route: string = SHELL) =>
  agent.tunnel?.({ decision: decided(route, params, actor), params, requestId: "r" }, nothing(), signal);

async function* nothing(): AsyncGenerator<Uint8Array> {}

describe("an agent", () => {
  it("takes requests as they are declared, and hands no other to a handler", async () => {
    expect(await call({ node: "n1", vmid: 100 })).toEqual({ data: { lines: [] } });
    const bad = [{ vmid: "100" }, { vmid: 100, force: true }, { vmid: 0 }, { vmid: null }, { vmid: [100] }];
    for (const params of bad)
      await expect(call({ node: "n1", ...params }), JSON.stringify(params)).rejects.toMatchObject({
        code: "request.invalid",
        message: expect.stringContaining(LOG),
      });
    expect(seen.splice(0)).toEqual([{ node: "n1", vmid: 100 }]);
  });

  it("opens tunnels in the same way, for whoever was let in", async () => {
    expect((await open({ node: "n1", port: 5900 }))?.opened).toEqual({ kind: "shell" });
    await expect(open({ node: "n1", port: "5900" })).rejects.toMatchObject({ code: "request.invalid" });
    const spice = "TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice";
    await expect(open({ node: "n1", vmid: 100 }, spice)).rejects.toThrow(`offers no "${spice}"`);
    expect(seen.splice(0)).toEqual([{ node: "n1", port: 5900, authid: "joe@pve" }]);
  });

  it("offers nothing that is not listed", () => {
    const extensions: Partial<OwnHandlers> = {
      // @ts-expect-error a route that is not listed does not compile
      "GET /gpve/nodes/{node}/moon": () => null,
    };
    const make = () =>
      createAgent({
        node: "n1",
        handlers: [],
        extensions,
        validate: (_route, params) => params,
        accessOf: () => undefined as never,
        logFor: () => undefined as never,
      });
    expect(make).toThrow("is not declared: nobody could be let in");
  });
});
