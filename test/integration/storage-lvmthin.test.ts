// A storage that is no directory: thin logical volumes, in a Debian guest that the product boots, because the kernel of a
// test host need not know them. The suite that every storage plugin passes runs there.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  missingForDebian,
  SPARE_DISK,
  startDebianGuest,
  type DebianGuest,
} from "../support/in-guest/debian-guest.ts";
import { inGuest } from "../support/in-guest/guest-archive.ts";

if (missingForDebian.length > 0)
  console.warn(
    `SKIPPED thin logical volumes: needs ${missingForDebian.join(", ")}; get packages with apt-get install`,
  );

const MINUTES = 60_000;
const LVM = [
  "lvm2",
  "liblvm2cmd2.03",
  "dmsetup",
  "dmeventd",
  "libdevmapper1.02.1",
  "libdevmapper-event1.02.1",
  "libaio1",
  "thin-provisioning-tools",
];
const SUITE = [
  "modprobe dm_thin_pool",
  // A daemon that watches pools is not what is tested, and slow to start under emulation.
  "echo 'activation { monitoring = 0 }' > /etc/lvm/lvmlocal.conf",
  `${inGuest.node} ${inGuest.suite} ${SPARE_DISK} ${inGuest.supervisor} 2>&1 || echo "ended with $?"`,
];

describe.skipIf(missingForDebian.length > 0)(
  "thin logical volumes in a Debian guest",
  { timeout: 30 * MINUTES },
  () => {
    let guest: DebianGuest | undefined;

    beforeAll(async () => {
      guest = await startDebianGuest(mkdtempSync(join(tmpdir(), "gpve-lvmthin-")), {
        entry: join(import.meta.dirname, "../support/in-guest/lvmthin-suite.ts"),
        packages: LVM,
        programs: ["/usr/bin/qemu-img"],
      });
    }, 30 * MINUTES);

    afterAll(async () => guest?.stop(), 5 * MINUTES);

    test("pass the suite of storage plugins, with confined image tools", async () => {
      const said = (await guest?.run(SUITE)) ?? "";
      console.log(said);
      expect(said).toMatch(/^. pass \d\d$/m);
      expect(said).toMatch(/^. fail 0$/m);
      expect(said).not.toContain("ended with");
    });
  },
);
