import { expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { toWire } from "@gpve/domain/schema/to-wire.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { createSdnHandlers } from "../network/sdn-handlers.ts";
import { createFirewallHandlers } from "./firewall-handlers.ts";

const handlers = createFirewallHandlers();
const params = { node: "n1", vmid: 100, pos: 3, name: "home", group: "web", cidr: "10.0.0.0/8", vnet: "v1" };
const call = (from: PveHandlers, key: string): unknown => {
  const handler = from[key as keyof PveHandlers] as (params: unknown, ctx: RequestContext) => unknown;
  const answer = handler(
    { ...params, zone: "z1", ipam: "i1", dns: "d1", controller: "c1" },
    {} as RequestContext,
  );
  return toWire(methodByKey(key)?.returns, answer instanceof PveReply ? answer.data : answer);
};

test("answers what can be listed in the shape PVE gives it, and nothing is in it", () => {
  for (const from of [handlers, createSdnHandlers()]) {
    for (const key of Object.keys(from).filter((each) => !each.endsWith("}") && !each.endsWith("/subnets"))) {
      const answer = call(from, key);
      expect(shapeProblems(methodByKey(key)?.returns ?? {}, answer), key).toEqual([]);
      if (key.endsWith("/log")) expect(answer).toEqual([{ n: 1, t: "no content" }]);
      else if (key.endsWith("/options"))
        expect(answer).toEqual({ digest: "da39a3ee5e6b4b0d3255bfef95601890afd80709" });
      else if (key.endsWith("/all")) expect(answer).toEqual({ fabrics: [], nodes: [] });
      else expect(answer, key).toEqual([]);
    }
  }
});

test("single objects are missing in PVE's words", () => {
  const firewall = (key: string) => () => call(handlers, `GET ${key}`);
  for (const place of ["/cluster", "/nodes/{node}/qemu/{vmid}", "/nodes/{node}/lxc/{vmid}"]) {
    expect(firewall(`${place}/firewall/rules/{pos}`)).toThrow("no rule at position 3");
    expect(firewall(`${place}/firewall/ipset/{name}`)).toThrow("no such IPSet 'home'");
    expect(firewall(`${place}/firewall/ipset/{name}/{cidr}`)).toThrow("no such IPSet 'home'");
    expect(firewall(`${place}/firewall/aliases/{name}`)).toThrow(
      expect.objectContaining({ pveStatus: 400, errors: { name: "no such alias" } }),
    );
  }
  expect(firewall("/nodes/{node}/firewall/rules/{pos}")).toThrow("no rule at position 3");
  expect(firewall("/cluster/firewall/groups/{group}")).toThrow("no such security group 'web'");
  expect(firewall("/cluster/firewall/groups/{group}/{pos}")).toThrow("no such security group 'web'");
  const sdn = createSdnHandlers();
  for (const [key, id] of [
    ["zones/{zone}", "z1"],
    ["vnets/{vnet}", "v1"],
    ["vnets/{vnet}/subnets", "v1"],
    ["vnets/{vnet}/subnets/{subnet}", "v1"],
    ["ipams/{ipam}", "i1"],
    ["dns/{dns}", "d1"],
    ["controllers/{controller}", "c1"],
  ]) {
    expect(() => call(sdn, `GET /cluster/sdn/${key}`)).toThrow(
      expect.objectContaining({ message: `sdn '${id}' does not exist`, pveStatus: 500 }),
    );
  }
});
