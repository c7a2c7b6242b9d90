import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openDataDir } from "./data-dir.ts";

describe("a data directory", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-data-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const write = (text: string): void => writeFileSync(join(folder, "instance.json"), text);

  test("keeps its name", () => {
    const { instanceId } = openDataDir(folder);
    expect(openDataDir(folder).instanceId).toBe(instanceId);
  });

  test.each(['{"vers', "", "null", "{}", '{"version":1}', '{"version":1,"instanceId":"../x"}'])(
    "with %j for its name is refused with the next step, and not taken for a new one",
    (text) => {
      write(text);
      expect(() => openDataDir(folder)).toThrow(/instance\.json is damaged .*--data DIR/);
    },
  );

  test("of a newer version, or where a file is, is refused with the next step", () => {
    write('{"version":99,"instanceId":"abcdef"}');
    expect(() => openDataDir(folder)).toThrow(/newer gpve .*another --data DIR/);
    expect(() => openDataDir(join(folder, "instance.json"))).toThrow(/cannot use .*--data DIR/);
  });
});
