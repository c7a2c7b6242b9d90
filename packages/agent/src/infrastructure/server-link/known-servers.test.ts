import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@gpve/kit/logger.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { KnownServers } from "./known-servers.ts";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "gpve-servers-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const known = (...configured: readonly string[]) =>
  new KnownServers({ configured, file: join(folder, "agent", "servers.json"), log: silentLogger });

test("servers that came later are kept for the next start, beside those of the configuration", () => {
  const servers = known("https://n1:8006");
  expect(servers.urls()).toEqual(["https://n1:8006"]);
  expect(servers.tell(["https://n2:8006", "https://n1:8006", "https://n3:8006"])).toBe(true);
  expect(servers.urls()).toEqual(["https://n1:8006", "https://n2:8006", "https://n3:8006"]);
  expect(servers.tell(["https://n3:8006", "https://n2:8006", "https://n1:8006"])).toBe(false);
  expect(known("https://old:8006").urls()).toEqual([
    "https://old:8006",
    "https://n1:8006",
    "https://n2:8006",
    "https://n3:8006",
  ]);
});

test("a server that left is forgotten, one that the configuration names stays", () => {
  const servers = known("https://n1:8006");
  servers.tell(["https://n1:8006", "https://n2:8006", "https://n3:8006"]);
  expect(servers.tell(["https://n3:8006"])).toBe(true);
  expect(servers.urls()).toEqual(["https://n1:8006", "https://n3:8006"]);
});

test("another process of the node reads what was told since", () => {
  const [agent, fence] = [known("https://n1:8006"), known("https://n1:8006")];
  agent.tell(["https://n2:8006"]);
  expect(fence.urls()).toEqual(["https://n1:8006"]);
  fence.readAgain();
  expect(fence.urls()).toEqual(["https://n1:8006", "https://n2:8006"]);
  // Nobody is lost by a moment in which it cannot be read.
  writeFileSync(join(folder, "agent", "servers.json"), "{");
  fence.readAgain();
  expect(fence.urls()).toEqual(["https://n1:8006", "https://n2:8006"]);
});

test("one server is one, however it is written; what is no address of one is left out; nobody is no news", () => {
  const servers = known("https://N1:8006/");
  expect(servers.tell(["https://n1:8006", "http://n2:8006", "nonsense", "https://n3"])).toBe(true);
  expect(servers.urls()).toEqual(["https://N1:8006/", "https://n3"]);
  expect(servers.tell([])).toBe(false);
  expect(servers.urls()).toHaveLength(2);
});

test("a file that cannot be read costs nothing but what was in it", () => {
  known().tell(["https://n2:8006"]);
  for (const text of ["{", "[]", '{"servers":"x"}', '{"servers":[1,"file:///etc"]}', "null"]) {
    writeFileSync(join(folder, "agent", "servers.json"), text);
    expect(known("https://n1:8006").urls()).toEqual(["https://n1:8006"]);
  }
});

test("what cannot be kept still counts until the end", () => {
  writeFileSync(join(folder, "agent"), "no folder");
  const servers = known("https://n1:8006");
  expect(servers.tell(["https://n2:8006"])).toBe(true);
  expect(servers.urls()).toEqual(["https://n1:8006", "https://n2:8006"]);
});
