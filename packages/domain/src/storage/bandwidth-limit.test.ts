import { describe, expect, it } from "vitest";
import type { AccessView } from "../request/context.ts";
import { bandwidthLimit, type LimitRequest } from "./bandwidth-limit.ts";

const viewOf = (rights: Record<string, string>): AccessView => ({
  privileges: () => new Map(),
  has: (path, wanted) => wanted.every((each) => rights[path] === each),
  require: () => undefined,
});
const nobody = viewOf({});
const configured = {
  ofStorage: (storage: string) =>
    ({
      slow: "default=100",
      slower: "clone=50,default=70",
      open: "restore=10",
      free: "default=0",
      half: "clone=12.5",
    })[storage],
  ofDatacenter: "clone=200,default=300",
};
const limit = (
  storages: readonly string[],
  wanted?: number,
  access = nobody,
  operation: LimitRequest["operation"] = "clone",
): number | undefined => bandwidthLimit({ operation, storages, wanted, access }, configured);

describe("limits of bandwidth", () => {
  it("are the smallest of the storages', the operation's own before the default", () => {
    expect(limit(["slow"])).toBe(100);
    expect(limit(["slow", "slower"])).toBe(50);
    expect(limit(["slower"], undefined, nobody, "move")).toBe(70);
    expect(limit(["half"])).toBe(12.5);
  });

  it("are the datacenter's where a storage says nothing", () => {
    expect(limit(["open"])).toBe(200);
    expect(limit([])).toBe(200);
    expect(limit(["none"], undefined, nobody, "move")).toBe(300);
    expect(limit(["slow", "open"])).toBe(100);
    expect(
      bandwidthLimit(
        { operation: "clone", storages: ["x"], wanted: undefined, access: nobody },
        {
          ofStorage: () => undefined,
          ofDatacenter: undefined,
        },
      ),
    ).toBeUndefined();
  });

  it("may be lowered by a request, and raised by those who could change them", () => {
    expect(limit(["slow"], 20)).toBe(20);
    expect(limit(["slow"], 500)).toBe(100);
    expect(limit(["slow"], 0)).toBe(100);
    expect(limit(["slow"], 500, viewOf({ "/storage": "Datastore.Allocate" }))).toBe(500);
    expect(limit(["slow"], 0, viewOf({ "/storage/slow": "Datastore.Allocate" }))).toBe(0);
    expect(limit(["slow", "slower"], 500, viewOf({ "/storage/slow": "Datastore.Allocate" }))).toBe(50);
    expect(limit(["open"], 500)).toBe(200);
    expect(limit(["open"], 500, viewOf({ "/": "Sys.Modify" }))).toBe(500);
  });

  it("of zero are no limits, and say so", () => {
    expect(limit(["free"])).toBe(0);
    expect(limit(["free"], 10)).toBe(0);
  });

  it("that nobody asked for hold for everybody", () => {
    expect(limit(["slow"], undefined, viewOf({ "/storage": "Datastore.Allocate", "/": "Sys.Modify" }))).toBe(
      100,
    );
  });
});
