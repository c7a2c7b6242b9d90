import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatUpid, parseUpid, requireUpid } from "./upid.ts";
import type { Upid } from "./upid.ts";

const sample: Upid = {
  node: "pve1",
  pid: 0x1a2b,
  pstart: 0x123456,
  starttime: 0x6543_2100,
  type: "qmstart",
  id: "100",
  user: "root@pam",
};

const word = fc.string({ unit: "binary", minLength: 1, maxLength: 30 }).map((text) => text.toWellFormed());
const upids = fc.record<Upid>({
  node: fc.stringMatching(/^[a-zA-Z0-9]([a-zA-Z0-9-]{0,20}[a-zA-Z0-9])?$/),
  pid: fc.integer({ min: 1, max: 0xffff_ffff }),
  pstart: fc.integer({ min: 0, max: 0xf_ffff_ffff }),
  starttime: fc.integer({ min: 0, max: 0xffff_ffff }),
  type: word,
  id: fc.oneof(word, fc.constant("")),
  user: word,
});

describe("formatUpid", () => {
  it("writes PVE's form", () => {
    expect(formatUpid(sample)).toBe("UPID:pve1:00001A2B:00123456:65432100:qmstart:100:root@pam:");
    expect(formatUpid({ ...sample, id: "", user: "joe@pve!ci" })).toBe(
      "UPID:pve1:00001A2B:00123456:65432100:qmstart::joe@pve!ci:",
    );
  });

  it("writes a start mark of nine digits after 497 days", () => {
    expect(formatUpid({ ...sample, pstart: 0x1_0000_0000 })).toContain(":100000000:");
  });

  it("escapes what would break the format or a URL path", () => {
    const text = formatUpid({ ...sample, id: "local:iso/a b~%\\é(.iso" });
    expect(text).toContain(":local~3Aiso~2Fa~20b~7E~25~5C~C3~A9~28.iso:");
    expect(parseUpid(text)?.id).toBe("local:iso/a b~%\\é(.iso");
  });

  it("refuses what no UPID can say", () => {
    for (const bad of [
      { node: "a.b" },
      { pid: -1 },
      { pid: 2 ** 32 },
      { pstart: 2 ** 36 },
      { starttime: 1.5 },
      { type: "" },
      { user: "" },
    ])
      expect(() => formatUpid({ ...sample, ...bad })).toThrow("cannot name a task");
  });
});

describe("parseUpid", () => {
  it("reads back whatever was written, in one path segment of plain ASCII", () => {
    fc.assert(
      fc.property(upids, (upid) => {
        const text = formatUpid(upid);
        expect(parseUpid(text)).toEqual(upid);
        expect(text).toMatch(/^[A-Za-z0-9@!._+=,~:-]+$/);
        expect(text.split(":")).toHaveLength(9);
        expect(new URL(`https://h/tasks/${text}/log`).pathname.split("/")[2]).toBe(text);
      }),
    );
  });

  it("never throws and never guesses", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const upid = parseUpid(text);
        if (upid !== undefined) expect(text).toMatch(/^UPID:/);
      }),
    );
    for (const bad of [
      "",
      "UPID:pve1:1:2:3:a:b:c:",
      "UPID:pve1:00001A2B:00123456:65432100:qmstart:100:root@pam",
      "UPID:pve1:00001A2B:00123456:65432100::100:root@pam:",
      "UPID:pve1:00001A2B:0123456789:65432100:qmstart:100:root@pam:",
      "UPID:pve1:00001A2B:00123456:65432100:qmstart:1/0:root@pam:",
      "UPID:pve1:00001A2B:00123456:65432100:qmstart:~FF:root@pam:",
      "UPID:pve1:00001A2B:00123456:65432100:qmstart:~x:root@pam:",
      "UPID:-pve:00001A2B:00123456:65432100:qmstart:1:root@pam:",
    ])
      expect(parseUpid(bad), bad).toBeUndefined();
  });

  it("has PVE's error for callers that need one", () => {
    expect(requireUpid(formatUpid(sample))).toEqual(sample);
    expect(() => requireUpid("x")).toThrow(
      expect.objectContaining({ errors: { upid: "unable to parse worker upid" } }),
    );
  });
});
