import { describe, expect, it } from "vitest";
import { decided } from "@gpve/domain/access/testing/decided.ts";
import { createAgent, type OwnHandlers } from "./agent.ts";

const LOG = "GET /gpve/nodes/{node}/vms/{vmid}/log";
const SHELL = "TUNNEL /gpve/nodes/{node}/shell";
const seen: unknown[] = [];
const looked: string[] = [];
const agent = createAgent({
  node: "n1",
  handlers: [],
  arrival: async (vmid) => void looked.push(vmid),
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
    expect(looked.splice(0), "whether the guest has come").toEqual(["100"]);
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

  it("does nothing that was decided of something else, by calls and by tunnels", async () => {
    const others = decided(LOG, { node: "n1", vmid: 101 }, actor);
    const more = { requestId: "r", clientAddress: "" };
    const denied = { code: "access.denied" };
    const asked = { node: "n1", vmid: 100 };
    await expect(agent.call({ decision: others, params: asked, ...more }, signal)).rejects.toMatchObject(
      denied,
    );
    const made = structuredClone({ route: SHELL, actor, judged: { node: "n1" } }) as never;
    for (const decision of [undefined as never, made, decided(SHELL, { node: "n2" }, actor)]) {
      const request = { decision, params: { node: "n1", port: 5900 }, requestId: "r" };
      await expect(agent.tunnel?.(request, nothing(), signal)).rejects.toMatchObject(denied);
      await expect(agent.call({ ...request, ...more }, signal)).rejects.toMatchObject(denied);
    }
    expect(seen).toEqual([]);
  });

  it("does not use a parameter as another thing than it was judged as", async () => {
    const used: unknown[] = [];
    const reading = createAgent({
      node: "n1",
      handlers: [{ "GET /nodes/{node}/qemu/{vmid}/config": (params) => used.push(params) }],
      // As validation reads numbers.
      validate: (_route, params) => ({ ...params, vmid: Number(params["vmid"]) }),
      accessOf: () => undefined as never,
      logFor: () => undefined as never,
    });
    const read = async (vmid: string) => {
      const params = { node: "n1", vmid };
      const decision = decided("GET /nodes/{node}/qemu/{vmid}/config", params, actor);
      return reading.call({ decision, params, requestId: "r", clientAddress: "" }, signal);
    };
    await read("100");
    for (const vmid of ["0100", "1e2", "100.0", " 100"])
      await expect(read(vmid), vmid).rejects.toMatchObject({ code: "access.denied" });
    expect(used).toHaveLength(1);
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
