import { expect, test } from "vitest";
import type { StoreMember } from "@gpve/contracts/v1/bodies.ts";
import { StoreMembers } from "./store-members.ts";

const member = (name: string, healthy: boolean): StoreMember => ({
  id: `id-${name}`,
  name,
  role: "voter",
  leader: name === "n1",
  healthy,
  clientUrls: [],
  peerUrls: [],
});

function members(rows: readonly StoreMember[], isEmbedded = true) {
  const removed: string[] = [];
  const port = {
    isEmbedded,
    list: () => Promise.resolve(rows),
    remove: (id: string) => Promise.resolve(void removed.push(id)),
  };
  const forgotten: string[] = [];
  const servers = { forget: (name: string) => Promise.resolve(void forgotten.push(name)) };
  return { removed, forgotten, servers, members: new StoreMembers(port, servers) };
}

test("a lost member is taken out, one that answers is not, and neither is the last", async () => {
  const three = members([member("n1", true), member("n2", true), member("n3", false)]);
  expect(await three.members.list()).toHaveLength(3);
  await expect(three.members.remove("n2")).rejects.toThrow("stop its server first");
  await expect(three.members.remove("n9")).rejects.toThrow("it has n1, n2, n3");
  await three.members.remove("n3");
  expect(three.removed).toEqual(["id-n3"]);
  // Only then do agents turn to its server no more.
  expect(three.forgotten).toEqual(["n3"]);
  await expect(members([member("n1", false)]).members.remove("n1")).rejects.toThrow("only member");
});

test("what gpve does not run it does not change, and SQLite has no members", async () => {
  await expect(members([member("n1", false)], false).members.remove("n1")).rejects.toThrow("etcdctl");
  await expect(new StoreMembers(undefined, members([]).servers).list()).rejects.toThrow("SQLite");
});
