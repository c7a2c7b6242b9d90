import { agentRoutes } from "@gpve/contracts/agent/agent-routes.ts";
import { pveRoutes } from "@gpve/contracts/pve/routes.ts";
import { describe, expect, it } from "vitest";
import type { AccessView } from "../request/context.ts";
import { permissionDenied } from "./access-view.ts";
import { decide, decideForSystem, decisionFromServer, requireDecision, type Decision } from "./decision.ts";
import type { AccessModel } from "./model.ts";
import { SYSTEM_WORK } from "./system-work.ts";

const joe = { userid: "joe@pve", authid: "joe@pve" };
const START = "POST /nodes/{node}/qemu/{vmid}/status/start";
const CLONE = "POST /nodes/{node}/qemu/{vmid}/clone";
const model = { users: new Map(), groups: new Map(), members: new Map() } as unknown as AccessModel;
const holding = (...held: readonly string[]): AccessView => {
  const has: AccessView["has"] = (path, wanted, mode) =>
    mode === "any"
      ? wanted.some((each) => held.includes(`${path} ${each}`))
      : wanted.every((each) => held.includes(`${path} ${each}`));
  return {
    privileges: () => new Map(),
    has,
    require: (path, wanted, mode) => {
      if (!has(path, wanted, mode)) throw permissionDenied(`${path}, ${wanted.join("|")}`);
    },
  };
};
const as = (...held: readonly string[]) => ({ actor: joe, access: holding(...held), model });
const on = (params: Readonly<Record<string, unknown>>, node = "n1") => ({ node, params });

describe("a decision", () => {
  it("is made from the method's own permission, and from nothing else", () => {
    const params = { node: "n1", vmid: 100 };
    expect(() => decide(START, params, as("/vms/100 VM.Audit"))).toThrow("(/vms/100, VM.PowerMgmt)");
    const made = decide(START, params, as("/vms/100 VM.PowerMgmt"));
    expect(made).toMatchObject({ route: START, actor: joe, judged: { node: "n1", vmid: "100" } });
    expect(() => decide("POST /gpve/nodes/{node}/moon", params, as())).toThrow("nobody may call it");
    const shell = "POST /gpve/nodes/{node}/shells";
    expect(() => decide(shell, params, as("/nodes/n2 Sys.Console"))).toThrow("/nodes/n1, Sys.Console");
    expect(decide(shell, params, as("/nodes/n1 Sys.Console")).route).toBe(shell);
  });

  it("fits only the call it was made for", () => {
    const params = { node: "localhost", vmid: "100", newid: 200 };
    const made = decide(CLONE, params, as("/vms/100 VM.Clone", "/vms/200 VM.Allocate"));
    const fits = (given: Readonly<Record<string, unknown>>) => () => requireDecision(made, on(given));
    expect(fits(params)).not.toThrow();
    expect(fits({ ...params, node: "n1", full: 1 })).not.toThrow();
    expect(fits({ ...params, vmid: 101 })).toThrow('decided for vmid "100", called with "101"');
    expect(fits({ ...params, newid: 201 })).toThrow('decided for newid "200"');
    expect(fits({ ...params, pool: "web" })).toThrow("decided for pool nothing");
    expect(fits({ node: "n1", newid: 200 })).toThrow("called with nothing");
    expect(fits({ ...params, node: "n2" })).toThrow('decided for node "localhost"');
  });

  it("cannot be made up", () => {
    const real = decide(START, { node: "n1", vmid: 100 }, as("/vms/100 VM.PowerMgmt"));
    const params = { node: "n1", vmid: 100 };
    const facts = { route: real.route, actor: real.actor, judged: real.judged };
    for (const fake of [
      undefined,
      null,
      {},
      structuredClone(facts),
      Object.create(Object.getPrototypeOf(real) as object),
    ])
      expect(() => requireDecision(fake, on(params))).toThrow("carries no decision");
    // @ts-expect-error what looks like one is none
    const copied: Decision = facts;
    expect(() => requireDecision(copied, on(params))).toThrow("carries no decision");
    expect(() => Object.assign(real, { route: CLONE })).toThrow(TypeError);
    expect(() => Object.assign(real.judged, { vmid: "101" })).toThrow(TypeError);
  });

  it("of the system itself is for the methods its work needs", () => {
    const params = { node: "n1", vmid: "100" };
    const made = decideForSystem("backup-job", "POST /nodes/{node}/vzdump", params, undefined);
    expect(made.work).toBe("backup-job");
    expect(() => requireDecision(made, on(params))).not.toThrow();
    expect(() => decideForSystem("backup-job", START, params, undefined)).toThrow("is not to call");
    const sent = { route: START, actor: undefined, judged: params };
    expect(() => decisionFromServer({ ...sent, work: "backup-job" })).toThrow("is not to call");
    expect(() => requireDecision(decisionFromServer(sent), on({ ...params, vmid: 7 }))).toThrow(
      "decided for",
    );
  });

  it("can be made for every method that is declared", () => {
    const root = { actor: { userid: "root@pam", authid: "root@pam" }, access: holding(), model };
    const routes = [
      ...Object.keys(pveRoutes),
      ...Object.keys(agentRoutes),
      ...Object.values(SYSTEM_WORK).flat(),
    ];
    for (const route of routes) expect(decide(route, { node: "n1" }, root).route).toBe(route);
    expect(routes.length).toBeGreaterThan(200);
  });
});
