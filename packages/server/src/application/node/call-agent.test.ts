import { describe, expect, it } from "vitest";
import type { AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { nodeCalls } from "../../testing/node-calls.ts";
import { NodeWork } from "./node-work.ts";

const ctx = {
  actor: { userid: "a@pve", authid: "a@pve" },
  requestId: "r",
  clientAddress: "::1",
  signal: new AbortController().signal,
} as unknown as RequestContext;
const saying = (said: unknown): AgentDirectory => ({
  connection: (node) => ({
    node,
    call: () => Promise.resolve({ data: said }),
    tunnel: () => Promise.resolve({ opened: said, output: (async function* () {})() }),
  }),
});
const callsTo = (said: unknown) => nodeCalls(saying(said));

describe("calls to a node", () => {
  it("take an answer as it is declared, and no other", async () => {
    const offer = { port: 5900, upid: "UPID:n1:", password: "p" };
    const ask = (said: unknown) =>
      callsTo(said).call("n1", "POST /gpve/nodes/{node}/shells", { command: "login" }, ctx);
    expect((await ask(offer)).data).toEqual(offer);
    for (const said of [undefined, null, "UPID:x", [], { ...offer, port: 0 }, { ...offer, upid: "" }]) {
      await expect(ask(said)).rejects.toMatchObject({
        code: "internal.error",
        message: expect.stringContaining("node 'n1' answered POST /gpve/nodes/{node}/shells with what is no"),
      });
    }
    const { data } = await callsTo("anything").call("n1", "GET /nodes/{node}/status", {}, ctx);
    expect(data).toBe("anything");
  });

  it("take a tunnel only to what was asked for", async () => {
    const open = (said: unknown) =>
      callsTo(said).tunnel(
        "n1",
        "TUNNEL /gpve/nodes/{node}/shell",
        { port: 5900 },
        (async function* () {})(),
        ctx,
      );
    expect((await open({ kind: "shell" })).opened).toEqual({ kind: "shell" });
    await expect(open({ kind: "moon" })).rejects.toThrow("kind ");
  });

  it("compile only for routes that are listed, with what they need", () => {
    const calls = callsTo(null);
    const never = () => [
      // @ts-expect-error no such route
      calls.call("n1", "POST /gpve/nodes/{node}/moon", {}, ctx),
      // @ts-expect-error the VM is missing
      calls.call("n1", "GET /gpve/nodes/{node}/vms/{vmid}/log", {}, ctx),
      // @ts-expect-error a VM is a number
      calls.call("n1", "GET /gpve/nodes/{node}/vms/{vmid}/log", { vmid: "100" }, ctx),
      // @ts-expect-error a tunnel is no call
      calls.call("n1", "TUNNEL /gpve/nodes/{node}/shell", { port: 5900 }, ctx),
    ];
    expect(never).toBeTypeOf("function");
  });
});

describe("work of a node for /api/v1", () => {
  it("is about a VM whose number is one", async () => {
    const work = new NodeWork(callsTo({ lines: ["x"] }), () => ({ vmDisk: "a", iso: "b", backup: "c" }));
    expect(await work.log({ node: "n1", vmid: "100" }, ctx)).toEqual({ lines: ["x"] });
    for (const vmid of ["", "x", "0100", "-1", "1e3", "1234567890"])
      await expect(work.log({ node: "n1", vmid }, ctx), vmid).rejects.toMatchObject({
        code: "object.not_found",
        message: `there is no VM ${vmid} on node n1`,
      });
  });
});
