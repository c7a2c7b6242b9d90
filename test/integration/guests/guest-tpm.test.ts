// A helper process of a guest: confined as it is, with a uid of its own, reached through a socket the guest is given.
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bootable, type GuestWorld, guestWorld, missingForGuests } from "./guest-world.ts";

const SWTPM = "/usr/bin/swtpm";
const missing = missingForGuests() ?? (existsSync(SWTPM) ? undefined : `no ${SWTPM}: apt-get install swtpm`);
if (missing !== undefined) console.warn(`SKIPPED guest with a TPM: ${missing}`);

describe.skipIf(missing !== undefined)("a guest with a TPM", () => {
  let world: GuestWorld;

  beforeAll(async () => {
    world = await guestWorld();
  });

  afterAll(async () => {
    await world?.clean();
  });

  it("uses the TPM of its own helper", async () => {
    const guests = world.guests();
    const helper = "900-tpm";
    const socket = join(guests.placeOf(helper).ioFolder, "swtpm.sock");
    const state = world.data.file("tpm-state");
    mkdirSync(state, { mode: 0o700 });
    const tpm = await guests.start({
      id: helper,
      label: "TPM of VM 900",
      program: SWTPM,
      args: ["socket", "--tpm2", "--tpmstate", `dir=${state}`, "--ctrl", `type=unixio,path=${socket}`],
      files: [{ path: state, access: "rw" }],
    });
    await expect.poll(() => existsSync(socket), { timeout: 150_000 }).toBe(true);
    const guest = await guests.startQemu(
      bootable("900", world.disk("900.raw", "halt"), {
        files: [
          { path: world.data.file("900.raw"), access: "rw" },
          { path: socket, access: "rw" },
        ],
        // oxfmt-ignore
        args: [
          "-chardev", `socket,id=tpmchar,path=${socket}`,
          "-tpmdev", "emulator,id=tpm0,chardev=tpmchar",
          "-device", "tpm-tis,tpmdev=tpm0",
        ],
      }),
    );
    expect(guest.uid).not.toBe(tpm.uid);
    expect(await guest.qmp.raw("query-tpm")).toMatchObject([{ id: "tpm0" }]);
    await guest.stop();
    // QEMU may have told it to end; if it was too busy for that, we do.
    expect(["shutdown", "stopped"]).toContain((await tpm.stop()).cause);
  });
});
