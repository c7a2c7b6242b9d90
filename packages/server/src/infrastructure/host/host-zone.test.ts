import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { hostZone } from "./host-zone.ts";

const SUMMER = Date.UTC(2026, 6, 1) / 1000;

it("follows the host's link, and goes by TZ when that is set", () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-zone-"));
  try {
    const localtime = join(dir, "localtime");
    symlinkSync("/usr/share/zoneinfo/Europe/Vienna", localtime);
    const zone = hostZone({ localtime });
    expect(zone()(SUMMER)).toBe(7200);
    rmSync(localtime);
    symlinkSync("/usr/share/zoneinfo/Etc/UTC", localtime);
    expect(zone()(SUMMER)).toBe(0);
    expect(hostZone({ tz: ":Asia/Tokyo", localtime })()(SUMMER)).toBe(9 * 3600);
    expect(hostZone({ localtime: join(dir, "none") })()(SUMMER)).toBe(
      0 - new Date(SUMMER * 1000).getTimezoneOffset() * 60,
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
});
