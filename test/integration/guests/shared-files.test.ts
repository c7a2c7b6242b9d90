// What several guests read together: real QEMU, real users.
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { GUESTS_GROUP } from "@gpve/agent/infrastructure/guest-process/shared-files.ts";
import { exec } from "@gpve/kit/exec.ts";
import { expectClosedToStrangers } from "../../support/strangers.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED shared files: ${missing}`);

describe.skipIf(missing !== undefined)("a file that guests share", () => {
  let world: GuestWorld;
  beforeEach(async () => {
    world = await guestWorld();
  });
  afterEach(async () => {
    await world?.clean();
  });
  const shared = (path: string) => ({ path, access: "ro", owned: false, ofStorage: true }) as const;
  const made = (name: string, mode: number): string => {
    const path = join(world.data.path, name);
    writeFileSync(path, Buffer.alloc(65_536));
    chmodSync(path, mode);
    return path;
  };
  const facts = (path: string): number[] => {
    const { uid, gid, mode } = statSync(path);
    return [uid, gid, mode & 0o777];
  };
  const drive = (id: string, path: string): string[] => [
    "-blockdev",
    `driver=raw,node-name=${id},read-only=on,file.driver=file,file.filename=${path}`,
  ];

  it("is read by each of them, and by no other account of the host", async () => {
    const base = made("base.raw", 0o440);
    chownSync(base, 0, GUESTS_GROUP);
    const old = made("old.iso", 0o644);
    const upload = made("new.iso", 0o640);
    const guests = world.guests();
    for (const id of ["100", "101"]) {
      const disk = world.disk(`${id}.raw`, "halt");
      const clone = join(world.data.path, `${id}.qcow2`);
      await exec("qemu-img", ["create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", clone]);
      const guest = await guests.startQemu(
        bootable(id, disk, {
          files: [
            { path: disk, access: "rw" },
            { path: clone, access: "rw" },
            ...[base, old, upload].map(shared),
          ],
          args: [
            "-blockdev",
            `driver=qcow2,node-name=clone,file.driver=file,file.filename=${clone}`,
            ...drive("old", old),
            ...drive("new", upload),
          ],
        }),
      );
      const status = readFileSync(`/proc/${guest.pid}/status`, "utf8");
      expect(/^Groups:\s*(.*?)\s*$/m.exec(status)?.[1]?.split(" ")).toContain(String(GUESTS_GROUP));
    }
    expect(facts(base)).toEqual([0, GUESTS_GROUP, 0o440]);
    for (const path of [old, upload]) expect(facts(path)).toEqual([0, GUESTS_GROUP, 0o640]);
    for (const path of [base, old, upload]) await expectClosedToStrangers(path);
  });

  it("is opened by a running guest that gets it, also by one from before there was the group", async () => {
    const disk = world.disk("100.raw", "halt");
    const first = world.guests();
    const guest = await first.startQemu(bootable("100", disk));
    const open = async (of: typeof guest, path: string, name: string) => {
      await of.allowFile(shared(path));
      const file = { driver: "file", filename: path };
      await of.qmp.execute("blockdev-add", { driver: "raw", "node-name": name, "read-only": true, file });
    };
    const disc = made("a.iso", 0o640);
    await open(guest, disc, "a");
    expect(facts(disc)).toEqual([0, GUESTS_GROUP, 0o640]);
    first.close();
    const card = world.data.file("run", "guests", "100", "guest.json");
    const { inGroup, ...before } = JSON.parse(readFileSync(card, "utf8")) as Record<string, unknown>;
    expect(inGroup).toBe(true);
    writeFileSync(card, JSON.stringify(before));
    const second = world.guests();
    await second.adopt();
    const adopted = second.qemu("100");
    if (adopted === undefined) throw new Error("the guest was not found again");
    const other = made("b.iso", 0o640);
    await open(adopted, other, "b");
    expect(facts(other)).toEqual([0, 0, 0o644]);
  });
});
