// Puts a VM's cloud-init drive into its volume. The volume keeps its name and size, so that a running guest's QEMU can
// go on holding it: its content is written over, in the volume's own format.
import { requireHostFile, type BlockNode } from "@gpve/domain/storage/block-node.ts";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHash } from "node:crypto";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { HostDns } from "@gpve/domain/node/host-ports.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import {
  CLOUDINIT_DRIVE_BYTES,
  cloudinitDrive,
  type CloudinitDrive,
  dumpCloudinit,
} from "@gpve/domain/vm/cloudinit/cloudinit-drive.ts";
import type { CloudinitDrives } from "@gpve/domain/vm/cloudinit/cloudinit-drives.ts";
import type { CloudinitFacts } from "@gpve/domain/vm/cloudinit/cloudinit-source.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { ImageTools } from "../image-tools/image-tools.ts";
import { isoImage } from "./iso-image.ts";
import { hashCloudinitPassword } from "./sha-crypt.ts";

export interface CloudinitVolumeDeps {
  readonly tools: ImageTools;
  readonly dns: HostDns;
  /** The text of a snippet volume; refuses volumes that are none. */
  readonly snippet: (volumeId: string) => Promise<string>;
}

export class CloudinitVolumes implements CloudinitDrives {
  readonly #deps: CloudinitVolumeDeps;

  constructor(deps: CloudinitVolumeDeps) {
    this.#deps = deps;
  }

  readonly hashPassword = (password: string): string => hashCloudinitPassword(password);

  /** What `GET cloudinit/dump` answers. */
  async dump(vmid: number, values: VmValues, type: "user" | "network" | "meta"): Promise<string> {
    return dumpCloudinit(values, await this.#facts(vmid), type);
  }

  async files(vmid: number, values: VmValues, networkVersion: 1 | 2 = 1): Promise<CloudinitDrive> {
    return cloudinitDrive(values, {
      ...(await this.#facts(vmid)),
      base64: (text) => Buffer.from(text).toString("base64"),
      snippet: this.#deps.snippet,
      networkVersion,
    });
  }

  /** Makes the drive from the configuration and writes it into `volname` of the storage, which must exist. */
  async write(
    storage: StoragePlugin,
    volname: string,
    vmid: number,
    values: VmValues,
    networkVersion: 1 | 2 = 1,
  ): Promise<void> {
    const drive = await this.files(vmid, values, networkVersion);
    // An image that names other files is not written to: QEMU would fill parts of it from them.
    const { node, format } = await storage.attach(volname);
    const { size } = await storage.info(volname);
    await this.#store(isoImage(drive), node, format, Math.max(size, CLOUDINIT_DRIVE_BYTES));
  }

  /**
   * Written into the existing image (`-n`), also while QEMU has it open for reading: that QEMU sees it when the medium
   * is changed to the same volume. Name, owner and size stay.
   */
  async #store(iso: Uint8Array, node: BlockNode, format: string, size: number): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), "gpve-cloudinit-"));
    try {
      const source = join(folder, "drive.iso");
      const padded = Buffer.alloc(size); // zeros wipe what a longer drive left behind
      padded.set(iso);
      writeFileSync(source, padded, { mode: 0o600 });
      const target = requireHostFile(node, "a cloud-init drive");
      const file = target.replaceAll(",", ",,");
      const place = `driver=${format},file.driver=${node.driver},file.locking=off,file.filename=${file}`;
      const argv = ["convert", "-n", "-f", "raw", "--target-image-opts", source, place];
      await this.#deps.tools("qemu-img", argv, [
        { path: target, access: "rw" },
        { path: source, access: "ro" },
      ]);
    } catch (cause) {
      throw new AppError("internal.error", `cannot write the cloud-init drive: ${messageOf(cause)}`, {
        cause,
      });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async #facts(vmid: number): Promise<CloudinitFacts> {
    return {
      vmid,
      dns: await this.#deps.dns.read(),
      sha1: (text) => createHash("sha1").update(text).digest("hex"),
    };
  }
}
