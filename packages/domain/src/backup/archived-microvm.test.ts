import { describe, expect, it } from "vitest";
import { archivedMicrovm, readArchivedMicrovm } from "./archived-microvm.ts";

describe("a microvm in a backup", () => {
  it("is what it was", () => {
    for (const microvm of [
      { kernel: "local:snippets/k" },
      { kernel: "local:iso/k.img", initrd: "local:snippets/i", cmdline: 'a="b c"\nd:e' },
    ]) {
      const line = archivedMicrovm(microvm);
      expect(line.trimEnd()).not.toContain("\n");
      expect(readArchivedMicrovm(`cores: 1\n${line}`)).toEqual(microvm);
    }
    expect(archivedMicrovm(undefined)).toBe("");
    expect(readArchivedMicrovm("cores: 1\n")).toBeUndefined();
  });

  it("is refused when the line is nonsense", () => {
    for (const text of [
      "",
      "7",
      "null",
      "{}",
      '{"kernel":7}',
      '{"kernel":"a","initrd":1}',
      '{"kernel":"a","cmdline":[]}',
    ])
      expect(() => readArchivedMicrovm(`#qmdump#microvm:${text}\n`), text).toThrow("is damaged");
  });
});
