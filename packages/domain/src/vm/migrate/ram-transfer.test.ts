import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decodeTransfer,
  decodeWanted,
  describeTransfer,
  isTransferWanted,
  takenTransfer,
  wantedTransfer,
  type RamCompression,
} from "./ram-transfer.ts";

const both = { multifd: true, compressions: ["zstd", "zlib"] as RamCompression[] };
const small = { isEmulated: false, memoryMiB: 512 };
const none = { multifd: false, compressions: [] };
const plain = { multifd: true, compressions: [] };

describe("RAM on its way", () => {
  test("goes by one connection, as it is, between nodes that are near", () => {
    expect(wantedTransfer({}, small, both)).toBeUndefined();
    expect(wantedTransfer({ compression: "off" }, small, both)).toBeUndefined();
    expect(takenTransfer(undefined, both)).toBeUndefined();
  });

  test("is compressed where somebody asked for it, or the line is far", () => {
    for (const line of [{ compression: "on" as const }, { isFar: true }])
      expect(takenTransfer(wantedTransfer(line, small, both), both)).toEqual({
        channels: 4,
        compression: "zstd",
      });
  });

  test("goes by several connections over a far line, also where it may not or cannot be compressed", () => {
    const far = { isFar: true };
    expect(takenTransfer(wantedTransfer({ ...far, compression: "off" }, small, both), both)).toEqual({
      channels: 4,
    });
    expect(takenTransfer(wantedTransfer(far, small, plain), both)).toEqual({ channels: 4 });
    expect(takenTransfer(wantedTransfer(far, small, both), plain)).toEqual({ channels: 4 });
  });

  test("goes by several connections where there is much of it, unless it is sent slowly anyway", () => {
    const big = { isEmulated: false, memoryMiB: 1024 };
    expect(takenTransfer(wantedTransfer({}, big, both), both)).toEqual({ channels: 4 });
    expect(wantedTransfer({}, { ...big, isEmulated: true }, both)).toBeUndefined();
    expect(isTransferWanted({}, big)).toBe(true);
    expect(isTransferWanted({}, small)).toBe(false);
    expect(isTransferWanted({ compression: "on" }, small)).toBe(true);
    expect(isTransferWanted({ compression: "off" }, small)).toBe(false);
  });

  test("takes what both have, and nothing of what one lacks", () => {
    const on = { compression: "on" as const };
    const zlib = { multifd: true, compressions: ["zlib"] as RamCompression[] };
    expect(takenTransfer(wantedTransfer(on, small, both), zlib)).toEqual({
      channels: 4,
      compression: "zlib",
    });
    expect(takenTransfer(wantedTransfer(on, small, zlib), both)).toEqual({
      channels: 4,
      compression: "zlib",
    });
    expect(wantedTransfer(on, small, plain)).toBeUndefined();
    expect(takenTransfer(wantedTransfer(on, small, both), plain)).toBeUndefined();
    expect(wantedTransfer({ isFar: true }, small, none)).toBeUndefined();
    expect(takenTransfer(wantedTransfer({ isFar: true }, small, both), none)).toBeUndefined();
  });

  test("is told, and why not as it was asked for", () => {
    expect(describeTransfer({}, undefined, "n2")).toBeUndefined();
    expect(describeTransfer({}, { channels: 4 }, "n2")).toBe("RAM goes by 4 connections, as it is");
    expect(describeTransfer({ compression: "on" }, { channels: 4, compression: "zstd" }, "n2")).toBe(
      "RAM goes by 4 connections, compressed by zstd",
    );
    expect(describeTransfer({ compression: "on" }, undefined, "n2")).toMatch(
      /node 'n2' have no way in common/,
    );
    expect(describeTransfer({ isFar: true, compression: "off" }, { channels: 4 }, "n2")).toBe(
      "RAM goes by 4 connections, as it is",
    );
  });

  test("is read from the other node with care", () => {
    const wanted = wantedTransfer({ isFar: true }, small, both);
    expect(decodeWanted(JSON.parse(JSON.stringify(wanted)))).toEqual(wanted);
    expect(decodeWanted({ channels: 4, compressions: ["lz9", "zlib"] })).toMatchObject({
      compressions: ["zlib"],
      plain: false,
    });
    for (const odd of [undefined, null, true, {}, { channels: 0, compressions: [] }, { channels: 99 }])
      expect(decodeWanted(odd)).toBeUndefined();
    // What an earlier version answers.
    expect(decodeTransfer(true)).toBeUndefined();
    expect(decodeTransfer({})).toBeUndefined();
    expect(decodeTransfer({ channels: 4, compression: "zstd" })).toEqual({
      channels: 4,
      compression: "zstd",
    });
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
