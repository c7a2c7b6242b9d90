// Storages that are folders of servers, `nfs` and `cifs`, with disks of VMs from two nodes: servers and nodes run in a Debian
// guest that the product boots, because the kernel of a test host need not know how to mount them.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DebianPackages } from "@gpve/agent/infrastructure/images/debian-packages.ts";
import { exec } from "@gpve/kit/exec.ts";
import { nodeBinary, root } from "../support/gpve.ts";
import { runByAgent } from "../support/guest.ts";
import { missingForDebian, startDebianGuest, type DebianGuest } from "../support/in-guest/debian-guest.ts";
import { inGuest } from "../support/in-guest/guest-archive.ts";

if (missingForDebian.length > 0)
  console.warn(
    `SKIPPED folders of servers: needs ${missingForDebian.join(", ")}; get packages with apt-get install`,
  );

const MINUTES = 60_000;
const MEMORY_MIB = 3072;
const PACKAGES = [
  "nfs-kernel-server",
  "nfs-common",
  "samba",
  "samba-libs",
  "samba-common-bin",
  "cifs-utils",
  "qemu-system-x86",
  "qemu-system-common",
  "qemu-system-data",
  "qemu-utils",
  "seabios",
  "ipxe-qemu",
];

const LOG = "/var/log/suite";
const DONE = "the suite is over";

/** Shown as it comes: who ends the test sees how far it was. */
async function followed(guest: DebianGuest | undefined): Promise<string> {
  for (let said = ""; ; await sleep(5_000)) {
    if (guest === undefined) return said;
    const more = await runByAgent(
      guest.api,
      guest.path,
      "/bin/sh",
      "-c",
      `tail -c +${Buffer.byteLength(said) + 1} ${LOG}`,
    );
    if (more !== "") console.log(more);
    said += more;
    if (said.includes(DONE)) return said;
  }
}

describe.skipIf(missingForDebian.length > 0)(
  "folders of servers in a Debian guest",
  { timeout: 40 * MINUTES },
  () => {
    let guest: DebianGuest | undefined;

    beforeAll(async () => {
      await exec(nodeBinary, [join(root, "tools/build/binary.ts")], { cwd: root, timeoutMs: 5 * MINUTES });
      const graph = await new DebianPackages(exec).dependencies(PACKAGES);
      const libraries = new Set(PACKAGES.flatMap((name) => graph.libraries(name)));
      // The guest's own is in use, and the same.
      libraries.delete("libc6");
      guest = await startDebianGuest(
        mkdtempSync(join(tmpdir(), "gpve-servers-")),
        {
          entry: join(import.meta.dirname, "../support/in-guest/servers-suite.ts"),
          packages: [...PACKAGES, ...libraries],
          programs: [join(root, "dist/gpve")],
        },
        MEMORY_MIB,
      );
    }, 45 * MINUTES);

    afterAll(async () => guest?.stop(), 5 * MINUTES);

    test("hold disks of VMs of two nodes, and hang nothing when their server does", async () => {
      const suite = `${inGuest.node} ${inGuest.suite} /usr/bin/gpve || echo "ended with $?"; echo ${DONE}`;
      await guest?.run([`setsid sh -c '${suite}' > ${LOG} 2>&1 < /dev/null &`]);
      const said = await followed(guest);
      expect(said).toMatch(/^. pass \d\d$/m);
      expect(said).toMatch(/^. fail 0$/m);
      expect(said).not.toContain("ended with");
    });
  },
);
