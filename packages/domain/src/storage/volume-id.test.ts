import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { normalizeFileName } from "./content.ts";
import { formatVolumeId, parseVolumeId, requireVolumeId } from "./volume-id.ts";

describe("volume ids", () => {
  it("reads and prints any storage and volume name alike", () => {
    const storage = fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9\-_.]{0,20}[a-zA-Z0-9]$/);
    fc.assert(
      fc.property(storage, fc.stringMatching(/^[^\n]+$/), (store, volname) => {
        expect(parseVolumeId(formatVolumeId({ storage: store, volname }))).toEqual({
          storage: store,
          volname,
        });
      }),
    );
  });

  it("refuses what is no volume id, with PVE's text", () => {
    expect(parseVolumeId("local")).toBeUndefined();
    expect(() => requireVolumeId(":x")).toThrow("unable to parse volume ID ':x'");
    expect(requireVolumeId("a-b:1/x")).toEqual({ storage: "a-b", volname: "1/x" });
    expect(parseVolumeId("1local:x")).toBeUndefined();
  });

  it("makes harmless file names of what clients send", () => {
    expect(normalizeFileName("C:\\temp\\my image.iso")).toBe("my_image.iso");
    expect(normalizeFileName("../../etc/passwd")).toBe("passwd");
    fc.assert(
      fc.property(fc.string(), (name) => {
        expect(normalizeFileName(name)).toMatch(/^[a-zA-Z0-9_.-]*$/);
      }),
    );
  });
});
