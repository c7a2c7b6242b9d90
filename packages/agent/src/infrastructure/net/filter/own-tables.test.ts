import { expect, test } from "vitest";
import type { Exec } from "@gpve/kit/exec.ts";
import { emptied, OwnTables, removeTables } from "./own-tables.ts";

function kernel(listed: string): { readonly ran: string[]; readonly exec: Exec; refusal: Error | undefined } {
  const state = {
    ran: [] as string[],
    refusal: undefined as Error | undefined,
    exec: (async (_file, args) => {
      state.ran.push(args.join(" "));
      if (state.refusal !== undefined) throw state.refusal;
      return { stdout: listed, stderr: "" };
    }) as Exec,
  };
  return state;
}

test("what is wanted is written as a whole, and what was written is said", async () => {
  const host = kernel("");
  const wanted = new Set(["a"]);
  const tables = new OwnTables(
    { exec: host.exec, table: "t" },
    ["inet"],
    () => wanted,
    (items) => [...emptied("inet t"), ...items],
  );
  const first = tables.ensure();
  wanted.add("b");
  expect(await first).toEqual(["a", "b"]);
  expect(host.ran).toEqual(["add table inet t; delete table inet t; add table inet t; a b"]);
});

test("a refusal is told to whoever wanted it, and the next write goes on", async () => {
  const host = kernel("");
  const tables = new OwnTables(
    { exec: host.exec, table: "t" },
    ["bridge"],
    () => ["a"],
    (items) => items,
  );
  host.refusal = new Error("no such family");
  await expect(tables.ensure()).rejects.toThrow("no such family");
  expect(await tables.have(["a"])).toBe(false);
  host.refusal = undefined;
  expect(await tables.ensure()).toEqual(["a"]);
});

test("every family must have every text", async () => {
  const host = kernel("chain out { a }");
  const tables = new OwnTables(
    { exec: host.exec, table: "t" },
    ["bridge", "inet"],
    () => [],
    () => [],
  );
  expect(await tables.have(["chain out {", "a"])).toBe(true);
  expect(await tables.have(["chain out {", "b"])).toBe(false);
  expect(host.ran).toEqual([
    "list table bridge t",
    "list table inet t",
    // The first that lacks it is enough.
    "list table bridge t",
  ]);
});

test("only tables that are there are taken away, and nobody else's", async () => {
  const host = kernel("table bridge t_other\ntable inet t\n");
  await removeTables({ exec: host.exec, table: "t" }, ["bridge", "inet"]);
  expect(host.ran).toEqual(["list tables", "delete table inet t"]);
});
