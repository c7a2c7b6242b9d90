// What a microvm boots: files of a storage, read by QEMU itself.
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import type { MicrovmBoot } from "@gpve/domain/vm/argv/command-input.ts";
import { volumeOf, type VmHost } from "./vm-host.ts";

/** Content that is not a guest's disk: a kernel is read by everybody who boots it. */
const READABLE = ["iso", "snippets", "import"];

export function microvmFiles(
  host: VmHost,
  microvm: Microvm,
): { readonly boot: MicrovmBoot; readonly files: readonly GuestFile[] } {
  const { kernel, initrd, cmdline } = microvm;
  const boot = {
    kernel: pathOf(host, kernel),
    ...(initrd === undefined ? {} : { initrd: pathOf(host, initrd) }),
    ...(cmdline === undefined ? {} : { cmdline }),
  };
  const paths = [boot.kernel, ...(boot.initrd === undefined ? [] : [boot.initrd])];
  return { boot, files: paths.map((path): GuestFile => ({ path, access: "ro", owned: false })) };
}

function pathOf(host: VmHost, volid: string): string {
  const { plugin, volname } = volumeOf(host, volid);
  const { type } = plugin.parse(volname);
  if (!READABLE.includes(type))
    throw new AppError(
      "request.invalid",
      `'${volid}' is no file to boot: it must be ${READABLE.join(", ")} content`,
    );
  return plugin.path(volname);
}
