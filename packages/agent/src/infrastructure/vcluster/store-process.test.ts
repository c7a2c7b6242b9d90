import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { GuestProcesses, GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { StoreProcess } from "./store-process.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-store-"));
  for (const each of ["serve", "db", "sock"]) mkdirSync(join(folder, each));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("one whose database cannot be opened is refused with its own reason, and long before the last moment", async () => {
  const said = ["cannot serve other: the store is full", "cannot serve demo: of an hour ago"];
  const running = { hasExited: false, uid: process.getuid?.() };
  const processes = {
    get: () => running,
    // As the process does: at every look, and of others too.
    lastWords: () => {
      said.push("cannot serve demo: the store state.db is damaged", "serves other no longer");
      return said.join("\n");
    },
  } as unknown as GuestProcesses;
  const self = { program: "gpve", args: [], folders: [] };
  const stores = new StoreProcess({ folder, processes, self, clock: systemClock });
  const began = performance.now();
  await expect(stores.serve("demo", new AbortController().signal)).rejects.toThrow(
    /^the store of virtual cluster demo cannot be opened: cannot serve demo: the store state.db is damaged$/,
  );
  expect(performance.now() - began).toBeLessThan(25_000);
});

test("its process gives back what it frees: it has the databases of all clusters of a node", async () => {
  const starts: GuestStart[] = [];
  const processes = {
    get: () => undefined,
    start: async (start: GuestStart) => {
      starts.push(start);
      return { uid: process.getuid?.() };
    },
  } as unknown as GuestProcesses;
  const self = { program: "gpve", args: [], folders: [] };
  await new StoreProcess({ folder, processes, self, clock: systemClock }).ensure();
  expect(starts[0]?.env).toMatchObject({ MALLOC_TRIM_THRESHOLD_: "131072", HOME: "/" });
});

test("lends the folder of its lines to who keeps them, and enters it as one of the group", async () => {
  const uid = process.getuid?.() ?? 0;
  const processes = { get: () => undefined, start: async () => ({ uid }) } as unknown as GuestProcesses;
  const self = { program: "gpve", args: [], folders: [] };
  const stores = new StoreProcess({ folder, processes, self, clock: systemClock });
  const links = await stores.lendLinks();
  expect(links).toBe(join(folder, "link"));
  // One of before had it for itself.
  chmodSync(links, 0o700);
  await stores.lendLinks();
  const { gid, mode } = statSync(links);
  expect([gid, mode & 0o777]).toEqual([uid, 0o770]);
  expect(statSync(join(folder, "standby")).mode & 0o777).toBe(0o700);
});
