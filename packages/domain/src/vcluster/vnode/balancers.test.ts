import { describe, expect, test } from "vitest";
import { gatewayNumber, MOST_OVERLAY_NODES } from "../overlay.ts";
import { addressOf, balance, balancerAddresses, type BalancedService, withoutGateways } from "./balancers.ts";

const service = (name: string, spec: object = {}, ip?: string, more: object = {}): BalancedService => ({
  metadata: { name, namespace: "default", ...more },
  spec: { type: "LoadBalancer", ...spec },
  status: ip === undefined ? {} : { loadBalancer: { ingress: [{ ip }] } },
});
const pool = balancerAddresses("100.80.7").slice(0, 3);
const named = (services: readonly BalancedService[]) =>
  Object.fromEntries(balance(services, pool).map((each) => [each.service.metadata.name, each.address]));

describe("addresses of load balancers", () => {
  test("are the numbers of the subnet that workers do not get", () => {
    const all = balancerAddresses("100.80.7");
    expect([all[0], all.at(-1), all.length]).toEqual(["100.80.7.210", "100.80.7.254", 45]);
  });

  test("are none of those that the nodes of a cluster on several have, or one that joins would get", () => {
    const all = balancerAddresses("100.80.7");
    const nodes = ["a", "b", "c"].map((node) => ({ node, address: "192.0.2.1" }));
    expect(withoutGateways(all, undefined)).toBe(all);
    const left = withoutGateways(all, { nodes, at: 1 });
    expect([left[0], left.at(-1), left.length]).toEqual(["100.80.7.210", "100.80.7.223", 14]);
    for (let at = 0; at < MOST_OVERLAY_NODES; at++)
      expect(left).not.toContain(`100.80.7.${gatewayNumber({ nodes, at })}`);
  });

  test("go to whoever has one, then to whoever asks for one, then to the oldest", () => {
    const services = [
      service("young", {}, undefined, { creationTimestamp: "2026-02-01" }),
      service("old", {}, undefined, { creationTimestamp: "2026-01-01" }),
      service("asks", { loadBalancerIP: pool[0] }),
      service("has", {}, pool[2]),
    ];
    expect(named(services)).toEqual({ has: pool[2], asks: pool[0], old: pool[1], young: undefined });
  });

  test("are never given twice, nor from outside of the pool", () => {
    expect(named([service("a", {}, pool[0]), service("b", {}, pool[0])])).toEqual({ a: pool[0], b: pool[1] });
    expect(named([service("a", {}, "192.0.2.1")])).toEqual({ a: pool[0] });
    expect(named([service("a", { loadBalancerIP: "192.0.2.1" }, pool[0])])).toEqual({ a: undefined });
    expect(addressOf(service("a", {}, pool[0]))).toBe(pool[0]);
    expect(addressOf(service("a"))).toBeUndefined();
  });

  test("are for Services of that type and of no other's class, and go when they go", () => {
    const services = [
      service("plain", { type: "ClusterIP" }),
      service("others", { loadBalancerClass: "example.org/other" }),
      service("going", {}, pool[0], { deletionTimestamp: "2026-01-01" }),
      service("ours", { loadBalancerClass: "gpve.io/node" }),
    ];
    expect(named(services)).toEqual({ ours: pool[0] });
  });
});
