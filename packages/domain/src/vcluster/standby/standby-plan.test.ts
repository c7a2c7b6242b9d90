import { describe, expect, test } from "vitest";
import { boundOf, standbyRefusal } from "./standby.ts";
import {
  LOST_AFTER_MS,
  nextStandbyStep,
  type SeenStandby,
  SOLO_AFTER_MS,
  TELL_AGAIN_MS,
} from "./standby-plan.ts";

const standby = {
  node: "b",
  of: "a",
  generation: 7,
  mode: "stream",
  version: "1.36.4",
  inSync: true,
  since: 0,
} as const;
const told = { generation: 7, isJoined: true, isConnected: true, revision: 9, confirmed: 9 };
const seen: SeenStandby = {
  node: "a",
  isOnline: true,
  awayMs: 0,
  isSilent: false,
  isUp: true,
  isAtRest: false,
  told,
  toldMs: 0,
  standby,
  isStandbyOnline: true,
  isStandbyThere: true,
  isFed: false,
  standbyAwayMs: 0,
  saidMs: 0,
  spares: ["b", "c"],
};
const step = (more: Partial<SeenStandby>) => nextStandbyStep({ ...seen, ...more });
const lost = { isOnline: false, awayMs: LOST_AFTER_MS };
const cut = { told: { ...told, isConnected: false }, toldMs: SOLO_AFTER_MS };

describe("the standby of a cluster", () => {
  test("is made where there is another node, and the cluster runs", () => {
    expect(step({ standby: undefined, told: undefined })).toEqual({ do: "begin", node: "b" });
    expect(step({ standby: undefined, told: undefined, spares: [] })).toBeUndefined();
    expect(step({ standby: undefined, told: undefined, isUp: false })).toBeUndefined();
  });

  test("is left alone while it follows, and counts when it has joined", () => {
    expect(step({})).toBeUndefined();
    expect(step({ standby: { ...standby, inSync: false } })).toEqual({ do: "joined" });
    const behind = { standby: { ...standby, inSync: false }, told: { ...told, isJoined: false } };
    expect(step(behind)).toBeUndefined();
    expect(step({ ...behind, told: { ...told, isJoined: false, isConnected: false } })).toBeUndefined();
  });

  test("is told of again where nodes do not know what holds", () => {
    expect(step({ told: { ...told, generation: 6 } })).toBeUndefined();
    expect(step({ told: undefined, saidMs: TELL_AGAIN_MS })).toEqual({ do: "tell", both: true });
    const away = { ...told, isJoined: false, isConnected: false };
    const behind = { standby: { ...standby, inSync: false }, told: away, saidMs: TELL_AGAIN_MS };
    expect(step(behind)).toEqual({ do: "tell", both: true });
    expect(step({ ...behind, isStandbyOnline: false, standbyAwayMs: 1 })).toBeUndefined();
  });

  test("is gone on without after a while, and taken up again when it is back", () => {
    expect(step({ ...cut, toldMs: SOLO_AFTER_MS - 1 })).toBeUndefined();
    expect(step(cut)).toEqual({ do: "solo" });
    const solo = {
      standby: { ...standby, mode: "solo", inSync: false } as const,
      told: { ...told, isJoined: false, isConnected: false },
    };
    expect(step({ ...solo, isStandbyOnline: false, saidMs: TELL_AGAIN_MS })).toBeUndefined();
    expect(step({ ...solo, saidMs: TELL_AGAIN_MS })).toEqual({ do: "resume" });
    expect(step({ ...solo, isStandbyOnline: false, standbyAwayMs: LOST_AFTER_MS })).toEqual({
      do: "begin",
      node: "c",
    });
  });

  test("that is away when the cluster is started is gone on without too", () => {
    expect(step({ ...cut, isUp: false })).toEqual({ do: "solo" });
    // One that sleeps tells nothing, and nothing is written.
    expect(step({ told: undefined, isUp: false, saidMs: TELL_AGAIN_MS })).toBeUndefined();
  });

  test("of another node's store is none", () => {
    expect(step({ node: "c" })).toEqual({ do: "drop" });
    expect(step({ node: "c", ...lost })).toEqual({ do: "drop" });
  });

  test("takes over when the node is lost, and has everything", () => {
    expect(step({ ...lost, awayMs: LOST_AFTER_MS - 1 })).toBeUndefined();
    expect(step(lost)).toEqual({ do: "recover", to: "b" });
    // Nobody waits for a node that is known to be gone; one that only lacks its agent is waited for.
    expect(step({ isOnline: false, awayMs: 1, isSilent: true })).toEqual({ do: "recover", to: "b" });
    expect(step({ isOnline: true, isSilent: true })).toBeUndefined();
    expect(step({ ...lost, isStandbyThere: false })).toBeUndefined();
    // Only its agent is away, for as long as it may be: the store goes on, and what it writes is confirmed.
    expect(step({ ...lost, awayMs: 100 * LOST_AFTER_MS, isFed: true })).toBeUndefined();
    expect(step({ ...lost, isFed: true, isSilent: true })).toEqual({ do: "recover", to: "b" });
    expect(step({ ...lost, isAtRest: true })).toBeUndefined();
    // Whatever the lost node told last: what was answered since may be on it alone.
    expect(step({ ...lost, standby: { ...standby, inSync: false } })).toBeUndefined();
    expect(step({ ...lost, standby: undefined })).toBeUndefined();
  });
});

test("what may be lost follows from the tier, and which have a standby from where their objects are", () => {
  expect([boundOf({ tier: "Starter" }), boundOf({ tier: "Standard" })]).toEqual([1_000, 0]);
  const small = { backingStore: "sqlite", replicas: 1 } as const;
  expect(standbyRefusal(small)).toBeUndefined();
  expect(standbyRefusal({ ...small, replicas: 3 })?.reason).toBe("HasReplicas");
  expect(standbyRefusal({ ...small, backingStore: "etcd" })).toBeUndefined();
  expect(boundOf({ tier: "Performance" })).toBe(0);
  expect(standbyRefusal({ ...small, backingStore: "external" })?.reason).toBe("ExternalStore");
});
