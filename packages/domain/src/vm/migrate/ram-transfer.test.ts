import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decodeTransfer,
  decodeWanted,
  describeTransfer,
  takenTransfer,
  wantedTransfer,
  type RamCompression,
} from "./ram-transfer.ts";

const both = { multifd: true, compressions: ["zstd", "zlib"] as RamCompression[] };
const none = { multifd: false, compressions: [] };
const plain = { multifd: true, compressions: [] };

describe("RAM on its way", () => {
  test("goes by one connection, as it is, between nodes that are near", () => {
    expect(wantedTransfer({}, both)).toBeUndefined();
    expect(wantedTransfer({ compression: "off" }, both)).toBeUndefined();
    expect(takenTransfer(undefined, both)).toBeUndefined();
  });

  test("is compressed where somebody asked for it, or the line is far", () => {
    for (const line of [{ compression: "on" as const }, { isFar: true }])
      expect(takenTransfer(wantedTransfer(line, both), both)).toEqual({ channels: 4, compression: "zstd" });
  });

  test("goes by several connections over a far line, also where it may not or cannot be compressed", () => {
    const far = { isFar: true };
    expect(takenTransfer(wantedTransfer({ ...far, compression: "off" }, both), both)).toEqual({ channels: 4 });
    expect(takenTransfer(wantedTransfer(far, plain), both)).toEqual({ channels: 4 });
    expect(takenTransfer(wantedTransfer(far, both), plain)).toEqual({ channels: 4 });
  });

  test("takes what both have, and nothing of what one lacks", () => {
    const on = { compression: "on" as const };
    const zlib = { multifd: true, compressions: ["zlib"] as RamCompression[] };
    expect(takenTransfer(wantedTransfer(on, both), zlib)).toEqual({ channels: 4, compression: "zlib" });
    expect(takenTransfer(wantedTransfer(on, zlib), both)).toEqual({ channels: 4, compression: "zlib" });
    expect(wantedTransfer(on, plain)).toBeUndefined();
    expect(takenTransfer(wantedTransfer(on, both), plain)).toBeUndefined();
    expect(wantedTransfer({ isFar: true }, none)).toBeUndefined();
    expect(takenTransfer(wantedTransfer({ isFar: true }, both), none)).toBeUndefined();
  });

  test("is told, and why not as it was asked for", () => {
    expect(describeTransfer({}, undefined, "n2")).toBeUndefined();
    expect(describeTransfer({ compression: "on" }, { channels: 4, compression: "zstd" }, "n2")).toBe(
      "RAM goes by 4 connections, compressed by zstd",
    );
    expect(describeTransfer({ compression: "on" }, undefined, "n2")).toMatch(/node 'n2' have no way in common/);
    expect(describeTransfer({ isFar: true, compression: "off" }, { channels: 4 }, "n2")).toBe(
      "RAM goes by 4 connections, as it is",
    );
  });

  test("is read from the other node with care", () => {
    const wanted = wantedTransfer({ isFar: true }, both);
    expect(decodeWanted(JSON.parse(JSON.stringify(wanted)))).toEqual(wanted);
    expect(decodeWanted({ channels: 4, compressions: ["lz9", "zlib"] })).toMatchObject({
      compressions: ["zlib"],
      isFar: false,
    });
    for (const odd of [undefined, null, true, {}, { channels: 0, compressions: [] }, { channels: 99 }])
      expect(decodeWanted(odd)).toBeUndefined();
    // What an earlier version answers.
    expect(decodeTransfer(true)).toBeUndefined();
    expect(decodeTransfer({})).toBeUndefined();
    expect(decodeTransfer({ channels: 4, compression: "zstd" })).toEqual({ channels: 4, compression: "zstd" });
    expect(decodeTransfer({ channels: 2 })).toEqual({ channels: 2 });
    for (const odd of [{ channels: "4" }, { channels: 4, compression: "lz9" }, { channels: 17 }])
      expect(decodeTransfer(odd)).toBe("unknown");
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        const read = decodeTransfer(json);
        return read === undefined || read === "unknown" || read.channels <= 16;
      }),
    );
  });
});
