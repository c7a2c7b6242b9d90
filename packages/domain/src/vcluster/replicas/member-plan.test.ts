import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type MemberView, nextMemberStep, type EtcdMember } from "./member-plan.ts";

const url = (slot: number): string => `https://100.88.0.${2 + slot}:2380`;
const member = (slot: number, more: Partial<EtcdMember> = {}): EtcdMember => ({
  id: String(slot),
  name: `member-${slot}`,
  peerUrls: [url(slot)],
  isLearner: false,
  ...more,
});
const view = (more: Partial<MemberView> = {}): MemberView => ({
  own: url(2),
  name: "member-2",
  wanted: [0, 1, 2].map(url),
  hasData: false,
  isFirst: false,
  runs: false,
  members: [member(0), member(1)],
  ...more,
});

describe("a replica's etcd", () => {
  test("starts at once where it is the first, or has run before, whoever answers", () => {
    for (const members of [undefined, [member(0)]]) {
      expect(nextMemberStep(view({ isFirst: true, members }))).toEqual({ do: "start" });
      expect(nextMemberStep(view({ hasData: true, members }))).toEqual({ do: "start" });
    }
  });

  test("waits for somebody who answers, and for another that is joining", () => {
    expect(nextMemberStep(view({ members: undefined }))).toMatchObject({ do: "wait" });
    const busy = [member(0), member(1, { isLearner: true, name: "" })];
    expect(nextMemberStep(view({ members: busy }))).toMatchObject({
      do: "wait",
      why: expect.stringContaining("another member is joining") as string,
    });
  });

  test("has who was replaced removed before it is added, and starts with all that there are", () => {
    const seen = [member(0), member(1), member(5)];
    expect(nextMemberStep(view({ members: seen }))).toMatchObject({ do: "remove", id: "5" });
    expect(nextMemberStep(view())).toEqual({ do: "add" });
    const added = [member(0), member(1), member(2, { name: "", isLearner: true })];
    expect(nextMemberStep(view({ members: added }))).toEqual({
      do: "start",
      initialCluster: `member-0=${url(0)},member-1=${url(1)},member-2=${url(2)}`,
    });
  });

  test("leaves its place and takes it anew where it has lost what it had", () => {
    const seen = [member(0), member(1), member(2)];
    expect(nextMemberStep(view({ members: seen }))).toMatchObject({ do: "remove", id: "2" });
  });

  test("gets a vote when it runs, and then is done", () => {
    const learning = [member(0), member(1), member(2, { isLearner: true })];
    expect(nextMemberStep(view({ runs: true, members: learning }))).toEqual({ do: "promote", id: "2" });
    expect(nextMemberStep(view({ runs: true, members: [member(0), member(2)] }))).toEqual({ do: "done" });
    expect(nextMemberStep(view({ runs: true }))).toMatchObject({ do: "wait" });
  });

  test("three come to be a store of three in any order, and never cost the others their majority", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 200, maxLength: 200 }), (turns) => {
        let members: EtcdMember[] = [];
        const data = new Set<number>();
        const running = new Set<number>();
        for (const slot of turns) {
          const step = nextMemberStep({
            own: url(slot),
            name: `member-${slot}`,
            wanted: [0, 1, 2].map(url),
            hasData: data.has(slot),
            isFirst: slot === 0 && !data.has(0),
            runs: running.has(slot),
            members: running.size === 0 ? undefined : members,
          });
          const voters = members.filter(({ isLearner }) => !isLearner);
          if (step.do === "add") members = [...members, member(slot, { name: "", isLearner: true })];
          if (step.do === "start") {
            running.add(slot);
            data.add(slot);
            members = [
              ...members.filter(({ id }) => id !== String(slot)),
              member(slot, { isLearner: slot !== 0 }),
            ];
          }
          if (step.do === "promote") {
            // Only who runs gets a vote.
            expect(running.has(Number(step.id))).toBe(true);
            members = members.map((each) => (each.id === step.id ? { ...each, isLearner: false } : each));
          }
          expect(step.do).not.toBe("remove");
          const living = voters.filter(({ id }) => running.has(Number(id)));
          expect(living.length * 2).toBeGreaterThanOrEqual(voters.length);
          expect(members.filter(({ isLearner }) => isLearner).length).toBeLessThanOrEqual(1);
        }
        if ([0, 1, 2].every((slot) => turns.filter((each) => each === slot).length > 40))
          expect(members.map(({ isLearner }) => isLearner)).toEqual([false, false, false]);
      }),
      { numRuns: 50 },
    );
  });
});
