import { expect, test } from "vitest";
import {
  archiveSizeText,
  bytesText,
  clockText,
  durationText,
  momentText,
  speedText,
} from "./backup-texts.ts";

test("shows sizes in the largest unit that fits", () => {
  expect(bytesText(0)).toBe("0.00 B");
  expect(bytesText(1536, 1)).toBe("1.5 KiB");
  expect(bytesText(32 * 1024 ** 3)).toBe("32.00 GiB");
  expect(bytesText(5 * 1024 ** 6)).toBe("5120.00 PiB");
  expect([1000, 2_000_000, 3 * 1024 ** 3, 2 * 1024 ** 4].map(archiveSizeText)).toEqual([
    "0KB",
    "1MB",
    "3.00GB",
    "2.00TB",
  ]);
});

test("shows speeds", () => {
  expect([0, -1, 0.5, 1536.9, 2 * 1024 ** 3].map(speedText)).toEqual([
    "0 B/s",
    "0 B/s",
    "0.0 B/s",
    "1.5 KiB/s",
    "2.0 GiB/s",
  ]);
});

test("shows times", () => {
  expect(clockText(3_723_999)).toBe("01:02:03");
  expect([durationText(400), durationText(94_000), durationText(3_600_000)]).toEqual(["0s", "1m 34s", "1h"]);
  expect(durationText((8 * 86_400 + 61) * 1000)).toBe("1w 1d 1m 1s");
  expect(momentText({ year: 2026, month: 1, day: 2, hour: 3, minute: 4, second: 5 })).toBe(
    "2026-01-02 03:04:05",
  );
});
