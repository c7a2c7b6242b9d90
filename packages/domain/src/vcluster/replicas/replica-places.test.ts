import { describe, expect, test } from "vitest";
import {
  hasReplicas,
  isRenewalDay,
  memberName,
  placeReplicas,
  replicaAddresses,
  replicaNumber,
  withReplacement,
} from "./replica-places.ts";

const nodes = placeReplicas(["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` })));

describe("places of replicas", () => {
  test("each has a number, by which it has an address below those of workers and a name", () => {
    expect(nodes.map(({ node, slot }) => `${node} ${slot}`)).toEqual(["a 0", "b 1", "c 2"]);
    expect([undefined, 0, 7].map(replicaNumber)).toEqual([2, 2, 9]);
    expect(memberName(4)).toBe("member-4");
    const all = replicaAddresses("100.88.0.4");
    expect([all.length, all[0], all[2], all[7]]).toEqual([8, "100.88.0.2", "100.88.0.4", "100.88.0.9"]);
    expect([hasReplicas({ nodes }), hasReplicas({ nodes: [] }), hasReplicas(undefined)]).toEqual([
      true,
      false,
      false,
    ]);
  });

  test("each has days of its own for new certificates, who is alone has all", () => {
    const days = Array.from({ length: 16 }, (_none, day) => day * 86_400_000 + 5);
    expect(days.filter((now) => isRenewalDay(undefined, now))).toHaveLength(16);
    for (const now of days)
      expect([0, 1, 2].filter((slot) => isRenewalDay(slot, now)).length).toBeLessThan(2);
    for (const slot of [0, 3, 7]) expect(days.filter((now) => isRenewalDay(slot, now))).toHaveLength(2);
  });

  test("who comes instead of one that was lost has another number, and the others keep theirs", () => {
    let now = nodes;
    const seen = new Set<string>();
    for (let round = 0; round < 20; round++) {
      const lost = now[round % 3];
      const next = withReplacement(now, lost?.node ?? "", { node: `n${round}`, address: "192.0.2.9" });
      expect(next.filter(({ node }) => now.some((each) => each.node === node))).toHaveLength(2);
      const slots = next.map(({ slot }) => slot);
      expect(new Set(slots).size).toBe(3);
      expect(slots).not.toContain(lost?.slot);
      now = next;
      seen.add(slots.join());
    }
    expect(seen.size).toBeGreaterThan(3);
  });
});
