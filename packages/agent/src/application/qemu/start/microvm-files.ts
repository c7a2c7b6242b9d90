// What a microvm boots: files of a storage, read by QEMU itself.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import type { MicrovmBoot } from "@gpve/domain/vm/argv/command-input.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface MicrovmFilesPorts {
  readonly storages: GuestStorages;
}

/** Content that is not a guest's disk: a kernel is read by every guest that boots it. */
const READABLE = ["iso", "snippets", "import"];

export async function microvmFiles(
  host: MicrovmFilesPorts,
  microvm: Microvm,
): Promise<{ readonly boot: MicrovmBoot; readonly files: readonly GuestFile[] }> {
  const { kernel, initrd, cmdline } = microvm;
  const boot = {
    kernel: await pathOf(host, kernel),
    ...(initrd === undefined ? {} : { initrd: await pathOf(host, initrd) }),
    ...given({ cmdline }),
  };
  const paths = [boot.kernel, ...(boot.initrd === undefined ? [] : [boot.initrd])];
  return {
    boot,
    files: paths.map((path): GuestFile => ({ path, access: "ro", owned: false, ofStorage: true })),
  };
}

async function pathOf(host: MicrovmFilesPorts, volid: string): Promise<string> {
  const { plugin, storage, volname } = volumeOf(host, volid);
  const { type } = plugin.parse(volname);
  if (!READABLE.includes(type))
    throw new AppError(
      "request.invalid",
      `'${volid}' is no file to boot: it must be ${READABLE.join(", ")} content`,
    );
  if (!contentOf(host.storages.definition(storage)).has(type))
    throw storageRefused(`storage '${storage}' does not support content-type '${type}'`);
  await plugin.activate();
  return plugin.file(volname);
}
