import { expect, it } from "vitest";
import { leaseCollection, leaseId, type NodeLease } from "@gpve/domain/ha/node-lease.ts";
import type { NodeHealth, NodeView } from "@gpve/domain/node/runtime.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { nodeRecords } from "./collections.ts";
import { Membership, type MembershipDeps } from "./membership.ts";

const nobody: MembershipDeps["board"] = { get: () => undefined };

it("renews nothing for a certificate that was replaced while the new one was being made", async () => {
  const records = new MemoryRecords();
  let meanwhile = async (): Promise<void> => undefined;
  const issuer = {
    issueAgent: async () => {
      await meanwhile();
      return { certPem: "new", fingerprint: "NEW" };
    },
  } as unknown as MembershipDeps["issuer"];
  const membership = new Membership({
    records,
    clock: systemClock,
    board: nobody,
    issuer,
    serves: async () => false,
    random: (bytes) => new Uint8Array(bytes),
  });
  await membership.enrolLocal("n1", "127.0.0.1", 8444, "OLD");
  meanwhile = () => membership.enrolLocal("n1", "127.0.0.1", 8444, "REJOINED");
  await expect(membership.renew("n1", "OLD", "csr")).rejects.toMatchObject({ code: "access.denied" });
  expect(records.collection(nodeRecords).get("n1")?.value).toMatchObject({ certFingerprint: "REJOINED" });
  meanwhile = async () => undefined;
  await membership.renew("n1", "REJOINED", "csr");
  expect(records.collection(nodeRecords).get("n1")?.value).toMatchObject({
    certFingerprint: "NEW",
    previousFingerprint: "REJOINED",
  });
});

it("tells where the servers are that run, as each has noted", async () => {
  const records = new MemoryRecords();
  const running = new Set(["s1", "s2"]);
  const { servers } = new Membership({
    records,
    clock: systemClock,
    board: nobody,
    issuer: {} as MembershipDeps["issuer"],
    serves: async (name) => running.has(name),
    random: (bytes) => new Uint8Array(bytes),
  });
  for (const [at, name] of ["s1", "s2", "s3"].entries())
    await servers.note({ name, url: `https://192.0.2.${at}:8006` });
  expect(await servers.urls()).toEqual(["https://192.0.2.0:8006", "https://192.0.2.1:8006"]);
  running.add("s3");
  await servers.note({ name: "s1", url: "https://192.0.2.9:8006" });
  expect(await servers.urls()).toEqual([
    "https://192.0.2.9:8006",
    "https://192.0.2.1:8006",
    "https://192.0.2.2:8006",
  ]);
  await servers.forget("s2");
  expect(await servers.urls()).toEqual(["https://192.0.2.9:8006", "https://192.0.2.2:8006"]);
  await servers.note({ name: "s2", url: "https://192.0.2.1:8006" });
  expect(await servers.urls()).toHaveLength(3);
});

it("lets one server in by a token for servers, and by no other", async () => {
  const records = new MemoryRecords();
  let seed = 0;
  const membership = new Membership({
    records,
    clock: systemClock,
    board: nobody,
    issuer: {
      caFingerprint: "AA:".repeat(31) + "AA",
      caPem: "",
      keyFingerprint: () => Promise.resolve("key"),
    } as unknown as MembershipDeps["issuer"],
    serves: async (name) => name === "s1",
    random: (bytes) => new Uint8Array(bytes).fill(++seed),
  });
  const invite = async (options: object): Promise<string> =>
    (await membership.invite({ ttlMs: 60_000, createdBy: "root@pam", ...options })).token;
  const forNode = await invite({});
  const refused = /unknown, used or expired/;
  await expect(membership.admitServer({ token: forNode, name: "s2" })).rejects.toThrow(refused);
  await expect(membership.admitServer({ token: "gpve-join.x", name: "s2" })).rejects.toThrow(refused);
  const forServer = await invite({ server: true, node: "s2" });
  await expect(membership.admitServer({ token: forServer, name: "a b" })).rejects.toThrow(/not a valid name/);
  await expect(membership.admitServer({ token: forServer, name: "s3" })).rejects.toThrow(
    /for node s2, not for s3/,
  );
  // It makes no node of anybody.
  const node = { token: forServer, node: "s2", address: "192.0.2.2", port: 8444, csrPem: "" };
  await expect(membership.join(node)).rejects.toThrow(refused);
  // A name that is taken costs no token, and is told to nobody who has none.
  const anyName = await invite({ server: true });
  await expect(membership.admitServer({ token: anyName, name: "s1" })).rejects.toThrow(
    "a server named s1 runs in this cluster: choose another name",
  );
  await expect(membership.admitServer({ token: forNode, name: "s1" })).rejects.toThrow(refused);
  await membership.admitServer({ token: anyName, name: "s3" });
  await membership.admitServer({ token: forServer, name: "s2" });
  await expect(membership.admitServer({ token: forServer, name: "s2" })).rejects.toThrow(refused);
});

it("gives a node's place to another machine only when the one that has it is gone", async () => {
  const records = new MemoryRecords();
  const clock = new FakeClock();
  let health: NodeHealth = "unknown";
  let seed = 0;
  const membership = new Membership({
    records,
    clock,
    board: { get: () => ({ health }) as NodeView },
    issuer: {
      caFingerprint: "AA:".repeat(31) + "AA",
      caPem: "",
      keyFingerprint: async (csr: string) => csr,
      issueAgent: async (csr: string) => ({ certPem: "", fingerprint: `of ${csr}` }),
    },
    serves: async () => false,
    random: (bytes) => new Uint8Array(bytes).fill(++seed),
  });
  const holds = (holder: NodeLease["holder"], beat: number) =>
    records.transact((tx) =>
      tx.put(leaseCollection, leaseId("n2"), { node: "n2", holder, token: 1, beat, at: 0 }),
    );
  const invite = async () => {
    const { token } = await membership.invite({ ttlMs: 3_600_000, createdBy: "root@pam", node: "n2" });
    return token;
  };
  const has = () => records.collection(nodeRecords).get("n2")?.value.certFingerprint;
  const joins = async (token: string, key: string) => {
    await membership.join({ token, node: "n2", address: "192.0.2.2", port: 8444, csrPem: key });
    return has();
  };
  const first = await invite();
  expect(await joins(first, "first")).toBe("of first");
  const second = await invite();
  health = "online";
  await expect(joins(second, "second")).rejects.toMatchObject({
    code: "resource.busy",
    message: expect.stringContaining("node n2 is online"),
  });
  // The same machine, whose answer was lost.
  expect(await joins(first, "first")).toBe("of first");
  // Its agent has ended; what keeps its guests has not.
  health = "offline";
  await holds("node", 1);
  await clock.advance(12_000);
  await expect(joins(second, "second")).rejects.toThrow("may still run guests under HA");
  await holds("node", 2);
  await clock.advance(12_000);
  await expect(joins(second, "second")).rejects.toThrow("no sign of life for 13 s");
  // Also where it was removed meanwhile.
  await membership.remove("n2");
  const third = await invite();
  await expect(joins(third, "third")).rejects.toThrow("may still run guests under HA");
  await clock.advance(1_000);
  expect(await joins(third, "third")).toBe("of third");
  // Nothing under HA could run there.
  await holds("nobody", 3);
  expect(await joins(await invite(), "fourth")).toBe("of fourth");
});
