import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { Cluster, Maintenance, type Member } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { linkOver } from "./link.ts";
import { MemberCalls, linksWith } from "./members.ts";

type Plain = Pick<Member, "id" | "name" | "peerUrls" | "clientUrls" | "isLearner">;
const named = (id: bigint, name: string, clientUrls = [`https://${name}`]): Plain => ({
  id,
  name,
  peerUrls: [`https://${name}:2380`],
  clientUrls,
  isLearner: false,
});

/** A cluster in memory; which of its members answer is up to the test. */
function cluster(start: readonly Plain[]) {
  const state = { members: [...start], caughtUp: false, leader: 1n };
  const transport = (of: bigint) =>
    createRouterTransport(({ service }) => {
      service(Cluster, {
        memberList: () => ({ members: state.members }),
        memberAdd: ({ peerUrls, isLearner }) => {
          const member = { id: 9n, name: "", peerUrls, clientUrls: [], isLearner };
          state.members.push(member);
          return { member, members: state.members };
        },
        memberPromote: ({ id }) => {
          if (!state.caughtUp)
            throw new ConnectError(
              "etcdserver: can only promote a learner member which is in sync with leader",
              Code.FailedPrecondition,
            );
          if (id === 404n) throw new ConnectError("etcdserver: permission denied", Code.PermissionDenied);
          state.members = state.members.map((each) =>
            each.id === id ? { ...each, isLearner: false } : each,
          );
          return { members: state.members };
        },
        memberRemove: ({ id }) => {
          state.members = state.members.filter((each) => each.id !== id);
          return { members: state.members };
        },
      });
      service(Maintenance, {
        status: () => ({
          version: "3.4.23",
          dbSize: 4096n,
          leader: state.leader,
          errors: of === 2n ? ["NOSPACE"] : [],
        }),
      });
    });
  const members = new MemberCalls({
    link: (url) =>
      linkOver(
        url,
        () => transport(url === "https://n2" ? 2n : 1n),
        () => (url === "https://gone" ? "connection refused" : undefined),
      ),
  });
  return { state, members };
}

const URLS = ["https://gone", "https://n1"];

test("a member comes in as a learner, votes when it has caught up, and goes", async () => {
  const { state, members } = cluster([named(1n, "n1")]);
  const added = await members.add(URLS, "https://n2:2380");
  expect(added).toMatchObject([{ name: "n1" }, { name: "", isLearner: true, peerUrls: ["https://n2:2380"] }]);
  expect(await members.promote(URLS, 9n)).toBe(false);
  state.caughtUp = true;
  expect(await members.promote(URLS, 9n)).toBe(true);
  expect(await members.list(URLS)).toMatchObject([{}, { isLearner: false }]);
  await members.remove(URLS, 9n);
  expect(await members.list(URLS)).toHaveLength(1);
  await expect(members.promote(URLS, 404n)).rejects.toMatchObject({ code: "store.unavailable" });
});

test("each member's health is its own word, or why there is none", async () => {
  const lost = named(3n, "n3", ["https://gone"]);
  const { state, members } = cluster([named(1n, "n1"), named(2n, "n2"), lost, named(4n, "n4", [])]);
  expect(await members.health(URLS)).toMatchObject([
    { name: "n1", isLeader: true, problem: undefined, version: "3.4.23", bytes: 4096 },
    { name: "n2", isLeader: false, problem: "NOSPACE" },
    { name: "n3", problem: expect.stringContaining("connection refused") as unknown },
    { name: "n4", problem: "has not started yet" },
  ]);
  state.leader = 0n;
  const [first] = await members.health(URLS);
  expect(first?.problem).toContain("no leader");
  await expect(members.list([])).rejects.toThrow("no etcd endpoint");
});

test("links are made for whatever members there are", () => {
  const { link } = linksWith({ tls: {} });
  const made = link("http://127.0.0.1:1");
  expect(made.url).toBe("http://127.0.0.1:1");
  made.close();
});
