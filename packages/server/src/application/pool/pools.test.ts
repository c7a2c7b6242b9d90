import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AccessFixture } from "../../testing/access-fixture.ts";
import { openAccessFixture } from "../../testing/access-fixture.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { addGuestToPool, removeGuestAccess, removeStorageAccess } from "./pools.ts";

let fix: AccessFixture;
beforeEach(async () => {
  fix = await openAccessFixture();
  for (const vmid of [100, 101]) {
    fix.resources.set(`vm/${vmid}`, { id: `qemu/${vmid}`, type: "qemu", vmid, node: "n1" });
  }
  fix.resources.set("vm/200", { id: "lxc/200", type: "lxc", vmid: 200, node: "n1" });
  fix.resources.set("storage/local", {
    id: "storage/n1/local",
    type: "storage",
    storage: "local",
    node: "n1",
  });
});
afterEach(() => fix[Symbol.asyncDispose]());
const root = (route: string, params?: Record<string, unknown>): Promise<unknown> =>
  fix.call("root@pam", route, params);

describe("pools", () => {
  test("are made, filled, shown and emptied", async () => {
    expect(await root("GET /pools")).toEqual([]);
    expect(await root("POST /pools", { poolid: "p1", comment: "first" })).toBeNull();
    await root("PUT /pools", { poolid: "p1", vms: "100,200", storage: "local" });
    expect(await root("GET /pools")).toEqual([{ poolid: "p1", comment: "first" }]);
    const members = [
      { id: "qemu/100", type: "qemu", vmid: 100, node: "n1" },
      { id: "lxc/200", type: "lxc", vmid: 200, node: "n1" },
      { id: "storage/n1/local", type: "storage", storage: "local", node: "n1" },
    ];
    expect(await root("GET /pools", { poolid: "p1" })).toEqual([{ poolid: "p1", comment: "first", members }]);
    expect(await root("GET /pools/{poolid}", { poolid: "p1" })).toEqual({ comment: "first", members });
    for (const [type, row] of [
      ["qemu", 0],
      ["lxc", 1],
      ["storage", 2],
    ] as const) {
      expect(await root("GET /pools/{poolid}", { poolid: "p1", type })).toEqual({
        comment: "first",
        members: [members[row]],
      });
    }
    await root("PUT /pools/{poolid}", {
      poolid: "p1",
      vms: "100,200",
      storage: "local",
      delete: 1,
      comment: "",
    });
    expect(await root("GET /pools/{poolid}", { poolid: "p1" })).toEqual({ members: [] });
    expect(await root("DELETE /pools", { poolid: "p1" })).toBeNull();
    expect(await root("GET /pools", { poolid: "p1" })).toBe("500 pool 'p1' does not exist");
  });

  test("nest, below a parent that exists", async () => {
    expect(await root("POST /pools", { poolid: "a/b" })).toBe(
      "500 create pool failed: parent 'a' of pool 'a/b' does not exist",
    );
    for (const poolid of ["a", "a/b", "a/b/c"]) expect(await root("POST /pools", { poolid })).toBeNull();
    expect(await root("DELETE /pools", { poolid: "a" })).toBe(
      "500 delete pool failed: pool 'a' is not empty (contains pool 'a/b')",
    );
    await root("PUT /pools", { poolid: "a/b/c", vms: "100" });
    expect(await root("GET /pools", { poolid: "a/b/c" })).toMatchObject([
      { poolid: "a/b/c", members: [{ vmid: 100 }] },
    ]);
  });

  test("mistakes get PVE's texts", async () => {
    for (const poolid of ["p1", "p2"]) await root("POST /pools", { poolid });
    expect(await root("POST /pools", { poolid: "p1" })).toBe(
      "500 create pool failed: pool 'p1' already exists",
    );
    const put = (params: Record<string, unknown>): Promise<unknown> =>
      root("PUT /pools", { poolid: "p1", ...params });
    expect(await put({ vms: "100", delete: 1 })).toBe("500 update pools failed: VM 100 is not a pool member");
    expect(await put({ storage: "local", delete: 1 })).toBe(
      "500 update pools failed: Storage 'local' is not a pool member",
    );
    await put({ vms: "100", storage: "local" });
    expect(await put({ vms: "100" })).toBe("500 update pools failed: VM 100 is already a pool member");
    expect(await put({ storage: "local" })).toBe(
      "500 update pools failed: Storage 'local' is already a pool member",
    );
    expect(await root("PUT /pools", { poolid: "p2", vms: "100" })).toBe(
      "500 update pools failed: VM 100 belongs already to pool 'p1' and allow-move is not set",
    );
    expect(await root("PUT /pools", { poolid: "none" })).toBe(
      "500 update pools failed: pool 'none' does not exist",
    );
    expect(await root("DELETE /pools/{poolid}", { poolid: "none" })).toBe(
      "500 delete pool failed: pool 'none' does not exist",
    );
    expect(await root("DELETE /pools", { poolid: "p1" })).toBe(
      "500 delete pool failed: pool 'p1' is not empty (contains VM 100)",
    );
    fix.resources.delete("vm/100");
    expect(await root("DELETE /pools", { poolid: "p1" })).toBe(
      "500 delete pool failed: pool 'p1' is not empty (contains storage 'local')",
    );
    fix.resources.delete("storage/local");
    expect(await root("DELETE /pools", { poolid: "p1" })).toBeNull();
  });

  test("guests move between pools when asked to", async () => {
    for (const poolid of ["p1", "p2"]) await root("POST /pools", { poolid });
    await root("PUT /pools", { poolid: "p1", vms: "100,101" });
    expect(await root("PUT /pools", { poolid: "p2", vms: "100,101", "allow-move": 1 })).toBeNull();
    expect(fix.records.collection(poolsDef).get("p1")?.value.vms).toEqual([]);
    expect(fix.records.collection(poolsDef).get("p2")?.value.vms).toEqual([100, 101]);
  });

  test("need rights on the pool and on what goes in or out", async () => {
    await root("POST /access/users", { userid: "joe@pve" });
    for (const poolid of ["p1", "p2"]) await root("POST /pools", { poolid });
    await root("PUT /pools", { poolid: "p2", vms: "100" });
    const joe = (route: string, params?: Record<string, unknown>): Promise<unknown> =>
      fix.call("joe@pve", route, params);
    expect(await joe("GET /pools")).toEqual([]);
    expect(await joe("GET /pools", { poolid: "p1" })).toBe(
      "403 Permission check failed (/pool/p1, Pool.Audit)",
    );
    expect(await joe("POST /pools", {})).toBe("403 Permission check failed (/pool/-, Pool.Allocate)");
    await root("PUT /access/acl", { path: "/pool/p1", roles: "PVEPoolAdmin", users: "joe@pve" });
    expect(await joe("GET /pools")).toEqual([{ poolid: "p1" }]);
    expect(await joe("PUT /pools", { poolid: "p1", vms: "100" })).toBe(
      "500 update pools failed: 403 Permission check failed (/vms/100, Permissions.Modify|VM.Allocate)",
    );
    await root("PUT /access/acl", { path: "/vms/100", roles: "PVEVMAdmin", users: "joe@pve" });
    expect(await joe("PUT /pools", { poolid: "p1", vms: "100", "allow-move": 1 })).toBe(
      "500 update pools failed: 403 Permission check failed (/pool/p2, Pool.Allocate)",
    );
    expect(await joe("DELETE /pools", { poolid: "p2" })).toBe(
      "403 Permission check failed (/pool/p2, Pool.Allocate)",
    );
  });

  test("deleting one takes its permissions", async () => {
    await root("POST /pools", { poolid: "p1" });
    await root("PUT /access/acl", { path: "/pool/p1", roles: "PVEAuditor", users: "root@pam" });
    await root("DELETE /pools", { poolid: "p1" });
    expect(await root("GET /access/acl")).toEqual([]);
  });

  test("changing many at once loses none", async () => {
    await root("POST /pools", { poolid: "p1" });
    const vmids = Array.from({ length: 40 }, (_, i) => 1000 + i);
    const answers = await Promise.all(
      vmids.map((vmid) => root("PUT /pools", { poolid: "p1", vms: String(vmid) })),
    );
    expect(answers.every((answer) => answer === null)).toBe(true);
    expect(fix.records.collection(poolsDef).get("p1")?.value.vms).toEqual(vmids);
  });
});

test("a guest enters a pool at birth and leaves nothing behind", async () => {
  await root("POST /pools", { poolid: "p1" });
  await fix.records.transact((tx) => {
    addGuestToPool(tx, 100, "p1");
    addGuestToPool(tx, 100, "p1");
  });
  await root("PUT /access/acl", { path: "/vms/100", roles: "PVEAuditor", users: "root@pam" });
  expect(fix.access.directory.model().poolsOf.get("/vms/100")).toEqual(["p1"]);
  await fix.records.transact((tx) => removeGuestAccess(tx, 100));
  expect(fix.records.collection(poolsDef).get("p1")?.value.vms).toEqual([]);
  expect(await root("GET /access/acl")).toEqual([]);
  await expect(fix.records.transact((tx) => addGuestToPool(tx, 100, "none"))).rejects.toThrow(
    "pool 'none' does not exist",
  );
});

test("a storage that goes leaves its pools and permissions", async () => {
  for (const poolid of ["p1", "p2"]) {
    await root("POST /pools", { poolid });
    await root("PUT /pools", { poolid, storage: "local" });
  }
  await root("PUT /access/acl", { path: "/storage/local", roles: "PVEAuditor", users: "root@pam" });
  await fix.records.transact((tx) => removeStorageAccess(tx, "local"));
  expect(
    fix.records
      .collection(poolsDef)
      .list()
      .map((entry) => entry.value.storage),
  ).toEqual([[], []]);
  expect(await root("GET /access/acl")).toEqual([]);
});
