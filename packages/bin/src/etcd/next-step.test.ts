import { expect, test } from "vitest";
import type { StoreMember } from "@gpve/store/etcd/members.ts";
import { nextStep } from "./next-step.ts";

const member = (name: string, isLearner = false): StoreMember => ({
  id: BigInt(name.slice(1)),
  name,
  peerUrls: [`https://${name}:2380`],
  clientUrls: [`https://${name}:2379`],
  isLearner,
});
const own = { name: "n3", peerUrl: "https://n3:2380" };
const two = [member("n1"), member("n2")];
const fresh = { ...own, hasData: false, runs: false };

test("a server without data comes in until there are three, one at a time", () => {
  expect(nextStep({ ...fresh, members: two })).toEqual({ do: "join" });
  expect(nextStep({ ...fresh, members: [...two, member("n4")] })).toEqual({ do: "stand-by" });
  expect(nextStep({ ...fresh, members: [member("n1"), member("n2", true)] })).toEqual({ do: "stand-by" });
});

test("a lost predecessor of its name or address makes room first", () => {
  const old = member("n3");
  expect(nextStep({ ...fresh, members: [...two, old] })).toEqual({ do: "replace", old });
  const moved = { ...old, peerUrls: ["https://elsewhere:2380"] };
  expect(nextStep({ ...fresh, members: [...two, moved] })).toEqual({ do: "replace", old: moved });
});

test("a learner that runs is given its vote; one that was taken out gives its data up only when it has ended", () => {
  const runs = { ...own, hasData: true, runs: true };
  expect(nextStep({ ...runs, members: [...two, member("n3", true)] })).toEqual({ do: "promote", id: 3n });
  expect(nextStep({ ...runs, members: [...two, member("n3")] })).toEqual({ do: "nothing" });
  expect(nextStep({ ...runs, members: two })).toEqual({ do: "nothing" });
  expect(nextStep({ ...runs, runs: false, members: two })).toEqual({ do: "set-aside" });
});
