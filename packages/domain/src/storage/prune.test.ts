import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { markBackups, parseKeepOptions, type CivilHour, type PruneCandidate } from "./prune.ts";

const utc = (ctime: number): CivilHour => {
  const at = new Date(ctime * 1000);
  return {
    year: at.getUTCFullYear(),
    month: at.getUTCMonth() + 1,
    day: at.getUTCDate(),
    hour: at.getUTCHours(),
  };
};
const backup = (time: string, more: Partial<PruneCandidate> = {}): PruneCandidate => ({
  volid: `s:backup/${time}`,
  ctime: Date.parse(time) / 1000,
  type: "qemu",
  vmid: 100,
  standard: true,
  protected: false,
  ...more,
});
const marks = (backups: readonly PruneCandidate[], keep: string): string[] =>
  markBackups(backups, parseKeepOptions(keep), utc).map((each) => each.mark);

describe("pruning backups", () => {
  it("keeps the last ones", () => {
    const list = ["2024-01-01T00:00Z", "2024-01-03T00:00Z", "2024-01-02T00:00Z"].map((time) => backup(time));
    expect(marks(list, "keep-last=2")).toEqual(["remove", "keep", "keep"]);
  });

  it("keeps everything when nothing, zero or keep-all is asked for", () => {
    const list = ["2024-01-01T00:00Z", "2024-01-03T00:00Z"].map((time) => backup(time));
    expect(marks(list, "")).toEqual(["keep", "keep"]);
    expect(marks(list, "keep-last=0")).toEqual(["keep", "keep"]);
    expect(marks(list, "keep-all=1")).toEqual(["keep", "keep"]);
  });

  it("keeps one per period, the newest, and lets later rules count only what earlier ones left", () => {
    const list = [
      backup("2024-03-10T12:00Z"),
      backup("2024-03-10T11:00Z"),
      backup("2024-03-09T12:00Z"),
      backup("2024-03-08T12:00Z"),
      backup("2024-02-01T12:00Z"),
      backup("2023-02-01T12:00Z"),
    ];
    expect(marks(list, "keep-last=1,keep-daily=1,keep-monthly=1,keep-yearly=1")).toEqual([
      "keep",
      "remove",
      "keep",
      "remove",
      "keep",
      "keep",
    ]);
    expect(marks(list, "keep-hourly=2")).toEqual(["keep", "keep", "remove", "remove", "remove", "remove"]);
  });

  it("counts weeks as ISO 8601 does, across the turn of the year", () => {
    // 2024-12-30 (Monday) to 2025-01-05 are one week.
    const list = [backup("2025-01-05T00:00Z"), backup("2024-12-30T00:00Z"), backup("2024-12-29T00:00Z")];
    expect(marks(list, "keep-weekly=2")).toEqual(["keep", "remove", "keep"]);
  });

  it("counts guests and types apart, and never touches protected or renamed archives", () => {
    const list = [
      backup("2024-01-02T00:00Z"),
      backup("2024-01-01T00:00Z", { vmid: 101 }),
      backup("2024-01-01T00:00Z", { type: "lxc" }),
      backup("2023-01-01T00:00Z", { protected: true }),
      backup("2023-01-01T00:00Z", { standard: false }),
      backup("2023-01-01T01:00Z"),
    ];
    expect(marks(list, "keep-last=1")).toEqual(["keep", "keep", "keep", "protected", "renamed", "remove"]);
  });

  it("keeps every archive that a kept one builds on", () => {
    const full = backup("2024-01-01T00:00Z", { volid: "full" });
    const one = backup("2024-01-02T00:00Z", { volid: "one", parent: "full" });
    const two = backup("2024-01-03T00:00Z", { volid: "two", parent: "one" });
    const lost = backup("2024-01-04T00:00Z", { volid: "lost", parent: "gone" });
    expect(marks([full, one, two], "keep-last=1")).toEqual(["keep", "keep", "keep"]);
    expect(marks([full, lost], "keep-last=1")).toEqual(["remove", "keep"]);
    const loop = [backup("2024-01-01T00:00Z", { volid: "x", parent: "x" })];
    expect(marks(loop, "keep-last=1")).toEqual(["keep"]);
  });

  it("never breaks a chain and never removes what is protected, whatever is asked", () => {
    const entry = fc.record({
      hours: fc.integer({ min: 0, max: 24 * 900 }),
      parent: fc.option(fc.integer({ min: 0, max: 9 })),
      isProtected: fc.boolean(),
    });
    const keep = fc.record({ "keep-last": fc.nat(3), "keep-daily": fc.nat(3), "keep-weekly": fc.nat(2) });
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 12 }), keep, (entries, options) => {
        const list = entries.map(({ hours, parent, isProtected }, at) =>
          backup(new Date(1_600_000_000_000 + hours * 3_600_000).toISOString(), {
            volid: String(at),
            protected: isProtected,
            ...(parent === null ? {} : { parent: String(parent) }),
          }),
        );
        const marked = markBackups(list, options, utc);
        const removed = new Set(marked.filter(({ mark }) => mark === "remove").map(({ volid }) => volid));
        for (const each of marked) {
          if (each.protected) expect(each.mark).toBe("protected");
          if (each.mark !== "remove" && each.parent !== undefined)
            expect(removed.has(each.parent)).toBe(false);
        }
      }),
    );
  });
});
