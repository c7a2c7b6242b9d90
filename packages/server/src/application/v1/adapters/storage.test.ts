import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { openTwoFaces, type TwoFaces } from "../../../testing/two-faces.ts";

let faces: TwoFaces;
beforeAll(async () => {
  faces = await openTwoFaces();
});
afterAll(() => faces.close());
beforeEach(() => faces.reset());

const storage = (name: string, spec: object) => ({
  apiVersion: "gpve.io/v1",
  kind: "Storage",
  metadata: { name },
  spec,
});
const ask = async (method: string, path: string, body?: unknown) => {
  const { status, text } = await faces.ask("root@pam", method, path, body);
  return { status, body: JSON.parse(text) as Record<string, unknown> };
};
const v1 = (method: string, path: string, body?: unknown) => ask(method, `/api/v1${path}`, body);
const record = (name: string) => faces.records.collection(storageCollection).get(name)?.value;
const DIR = { type: "dir", content: ["backup", "iso"], options: { path: "/nowhere/s2" } };

test("a storage made by one face is the same on the other", async () => {
  const made = await v1("POST", "/storages", storage("s2", { ...DIR, nodes: ["n1"], disabled: true }));
  expect(made).toMatchObject({ status: 201, body: { spec: { ...DIR, nodes: ["n1"], disabled: true } } });
  expect((await ask("GET", "/api2/json/storage/s2")).body["data"]).toMatchObject({
    storage: "s2",
    type: "dir",
    content: "backup,iso",
    nodes: "n1",
    disable: 1,
    path: "/nowhere/s2",
  });
  await ask("PUT", "/api2/json/storage/s2", { content: "iso", delete: "nodes,disable" });
  expect((await v1("GET", "/storages/s2")).body["spec"]).toEqual({
    type: "dir",
    content: ["iso"],
    options: { path: "/nowhere/s2" },
  });
});

test("changes are planned, patched and taken away in fields", async () => {
  await v1("POST", "/storages", storage("s2", { ...DIR, nodes: ["n1"] }));
  const plan = await v1("POST", "/plan", { objects: [storage("s2", { ...DIR, content: ["iso"] })] });
  expect(plan.body).toMatchObject({
    items: [
      { action: "update", changes: [{ path: "spec.content" }, { path: "spec.nodes", before: ["n1"] }] },
    ],
  });
  const patched = await v1("PATCH", "/storages/s2", { spec: { nodes: null, disabled: true } });
  expect(patched.body["spec"]).toEqual({ ...DIR, disabled: true });
  expect((await v1("PUT", "/storages/s2", storage("s2", DIR))).body["spec"]).toEqual(DIR);
  expect(record("s2")?.options).toEqual({ path: "/nowhere/s2", content: "backup,iso" });
  expect((await v1("DELETE", "/storages/s2")).status).toBe(200);
  expect(record("s2")).toBeUndefined();
});

test("an apply that is undone takes back the storage that it made", async () => {
  const bad = {
    apiVersion: "gpve.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "101" },
    spec: { node: "n9" },
  };
  const refused = await v1("POST", "/plan", { objects: [storage("s2", DIR), bad] });
  expect(refused.body).toMatchObject({ applicable: false });
  const made = await v1("POST", "/apply", { objects: [storage("s2", DIR)] });
  expect(await faces.ended(String((made.body as { task?: string }).task))).toBe("OK");
  expect(record("s2")).toMatchObject({ type: "dir", madeBy: expect.any(String) });
  const again = await v1("POST", "/plan", { objects: [storage("s2", DIR)] });
  expect(again.body).toMatchObject({ items: [{ action: "unchanged" }] });
});

test.each([
  [
    "another type",
    "s1",
    { ...DIR, type: "lvmthin", options: { vgname: "vg0", thinpool: "thin" } },
    /stays so/,
  ],
  ["a fixed option", "s1", { type: "dir", options: { path: "/elsewhere" } }, /fixed parameter 'path'/],
  ["a field as an option", "s2", { type: "dir", options: { path: "/x", nodes: "n1" } }, /is spec\.nodes/],
  [
    "an option nobody knows",
    "s2",
    { type: "dir", options: { path: "/x", colour: "red" } },
    /spec\.options\.colour/,
  ],
  ["a type without a plugin", "s2", { type: "rbd", content: ["images"] }, /'rbd' is not supported/],
  [
    "content that the type has not",
    "s2",
    { ...DIR, type: "lvmthin", options: { vgname: "vg0", thinpool: "thin" } },
    /content type 'backup'/,
  ],
  [
    "an option of a wrong type",
    "s2",
    { type: "dir", options: { path: "/x", mkdir: "perhaps" } },
    /spec\.options\.mkdir/,
  ],
])("refuses %s, with the reason", async (_what, name, spec, why) => {
  const before = record("s1");
  const method = name === "s1" ? "PUT" : "POST";
  const answer = await v1(method, name === "s1" ? "/storages/s1" : "/storages", storage(name, spec));
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(answer.status).toBeLessThan(502);
  expect(JSON.stringify(answer.body)).toMatch(why);
  expect([record("s1"), record("s2")]).toEqual([before, undefined]);
});

test("shows its tenants", async () => {
  await faces.records.transact((tx) => tx.put(poolsDef, "t1", { poolid: "t1", vms: [], storage: ["s1"] }));
  expect((await v1("GET", "/storages/s1")).body["status"]).toMatchObject({
    tenants: ["t1"],
    active: false,
    nodes: [],
  });
});
