import { link, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { takeGuestFile } from "../../../infrastructure/vm/guest-written-file.ts";
import { madeUpRequest, madeUpVmHost } from "../../../testing/made-up-vm.ts";
import { vmViewRoutes } from "./vm-views.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gpve-views-"));
});
afterAll(() => rm(folder, { recursive: true }));

let hasScreen = true;
const ask = async (path: "screenshot" | "log", vmid: number): Promise<unknown> => {
  const process: Partial<QemuProcess> = {
    id: "100",
    hasExited: false,
    ioFolder: folder,
    qmp: {
      execute: async (_name: string, { filename }: { filename: string }) => {
        if (!hasScreen) throw new Error("there is no console to take a screendump from");
        await writeFile(filename, "PNG");
      },
    } as unknown as QemuProcess["qmp"],
  };
  const vms = { 100: { values: {}, process }, 101: { values: {} } };
  const routes = vmViewRoutes({
    host: madeUpVmHost(vms, { ids: { newUuid: () => "u", newMac: () => "", sha256Hex: () => "" } }),
    takeFile: takeGuestFile,
    lastWords: (id) => (id === 100 ? "one\ntwo" : ""),
  });
  return routes[`GET /gpve/nodes/{node}/vms/{vmid}/${path}`]({ node: "n1", vmid }, madeUpRequest());
};

describe("views of a VM", () => {
  test("a picture of its screen is made by QEMU, and its file is gone afterwards", async () => {
    expect(await ask("screenshot", 100)).toEqual({ png: Buffer.from("PNG").toString("base64") });
    expect(existsSync(join(folder, "screen-u.png"))).toBe(false);
    await expect(ask("screenshot", 101)).rejects.toThrow("VM 101 not running");
    hasScreen = false;
    await expect(ask("screenshot", 100)).rejects.toThrow("VM 100 has no screen");
  });

  test("what its QEMU said is shown line by line", async () => {
    expect(await ask("log", 100)).toEqual({ lines: ["one", "two"] });
    expect(await ask("log", 101)).toEqual({ lines: [] });
  });

  test("a file that the guest did not write itself is not read", async () => {
    const secret = join(folder, "secret");
    await writeFile(secret, "s");
    await symlink(secret, join(folder, "link"));
    await expect(takeGuestFile(join(folder, "link"), undefined)).rejects.toThrow("ELOOP");
    await link(secret, join(folder, "hard"));
    await expect(takeGuestFile(join(folder, "hard"), undefined)).rejects.toThrow(
      "not what the guest was asked",
    );
    await writeFile(join(folder, "other"), "o");
    await expect(takeGuestFile(join(folder, "other"), 4_000_000)).rejects.toThrow(
      "not what the guest was asked",
    );
    await expect(takeGuestFile(join(folder, "gone"), undefined)).rejects.toThrow("ENOENT");
    expect(existsSync(secret)).toBe(true);
  });
});
