import { describe, expect, expectTypeOf, it } from "vitest";
import {
  agentRoutes,
  type AgentRoute,
  type AskedOf,
  type DataOf,
  type RequestOf,
  type TunnelRoute,
} from "./agent-routes.ts";
import { messageFault } from "./check-message.ts";

const fault = (route: keyof typeof agentRoutes, part: "request" | "answer", value: unknown) =>
  messageFault(agentRoutes[route][part], value);

describe("routes between servers and agents", () => {
  it("have types for what is asked and answered, and no others compile", () => {
    // @ts-expect-error a route that is not listed
    const unlisted: AgentRoute = "POST /gpve/nodes/{node}/moon";
    // @ts-expect-error a tunnel that is not listed
    const tunnel: TunnelRoute = "TUNNEL /gpve/nodes/{node}/moon";
    // @ts-expect-error a request without what it is about
    const empty: RequestOf<"GET /gpve/nodes/{node}/vms/{vmid}/log"> = { node: "n1" };
    expect([unlisted, tunnel, empty]).toHaveLength(3);
    expectTypeOf<AskedOf<"GET /gpve/nodes/{node}/vms/{vmid}/log">>().toEqualTypeOf<{ vmid: number }>();
    expectTypeOf<DataOf<"POST /gpve/nodes/{node}/probe">>().toEqualTypeOf<string>();
    expectTypeOf<DataOf<"GET /version">>().toEqualTypeOf<unknown>();
  });

  it("say what is wrong with a request", () => {
    const log = "GET /gpve/nodes/{node}/vms/{vmid}/log";
    expect(fault(log, "request", { node: "n1", vmid: 100 })).toBeUndefined();
    expect(fault(log, "request", { node: "n1" })).toBe("vmid is missing");
    expect(fault(log, "request", { node: "n1", vmid: "0100" })).toBe("vmid must be integer");
    expect(fault(log, "request", { node: "n1", vmid: 100, force: true })).toBe("force is not known");
    const backup = { node: "n1", vmid: 100, storage: "local", requestId: "r", backup: { mode: "snapshot" } };
    expect(fault("POST /gpve/nodes/{node}/vms/{vmid}/backup", "request", backup)).toBeUndefined();
    expect(
      fault("POST /gpve/nodes/{node}/vms/{vmid}/backup", "request", {
        ...backup,
        backup: { storage: "other" },
      }),
    ).toBe("backup.storage is not known");
  });

  it("let a newer node say more, but nothing else than it should", () => {
    const offer = "POST /gpve/nodes/{node}/vms/{vmid}/consoles";
    const good = { port: 5900, upid: "UPID:n1:", password: "p" };
    expect(fault(offer, "answer", { ...good, since: 1 })).toBeUndefined();
    expect(fault(offer, "answer", { ...good, port: "5900" })).toBe("port must be integer");
    expect(fault(offer, "answer", null)).toBe("must be object");
    expect(fault("POST /gpve/nodes/{node}/probe", "answer", "done")).toContain("^UPID:");
  });
});
