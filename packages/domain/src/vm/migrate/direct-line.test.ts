import { describe, expect, test } from "vitest";
import { decodeDirect, isDirectWanted, isKey } from "./direct-line.ts";

const secret = "0f".repeat(32);

describe("a line of QEMU's own", () => {
  test.each([
    [{}, { memory: "65536" }, true],
    [{ compression: "off" }, { memory: "1024" }, true],
    [{ isFar: true }, {}, false],
    [{ isFar: true, compression: "off" }, {}, false],
    [{ compression: "on" }, {}, false],
    [{}, { memory: "65537" }, false],
  ] as const)("%j, %j: %s", (line, values, isWanted) => {
    expect(isDirectWanted(line, values)).toBe(isWanted);
  });

  test("is known by a port and a secret, and by nothing that looks like them", () => {
    expect(decodeDirect({ port: 4000, secret })).toEqual({ port: 4000, secret });
    for (const json of [
      undefined,
      true,
      "x",
      {},
      { port: 4000 },
      { port: 0, secret },
      { port: 65_536, secret },
      { port: "1 ", secret },
      { port: 1.5, secret },
      { port: 1, secret: secret.toUpperCase() },
      { port: 1, secret: `${secret}\n` },
    ])
      expect(decodeDirect(json)).toBeUndefined();
    expect(isKey([secret])).toBe(false);
  });
});
