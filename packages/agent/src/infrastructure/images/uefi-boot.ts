// What a disk needs to start under UEFI: Debian's shim under the name that firmware looks for on a disk it was told
// nothing about, and GRUB, which that shim starts. Both are signed, as Debian's kernels are, so that firmware with
// Secure Boot and its usual keys (`pre-enrolled-keys=1`) starts the guest too.
import { join } from "node:path";
import type { FatFile } from "./fat-partition.ts";

export const UEFI_PACKAGES: readonly string[] = ["shim-signed", "grub-efi-amd64-signed"];

/** The partition type that firmware may look for; a boot sector in it still starts by BIOS. */
export const EFI_SYSTEM_PARTITION = 0xef;

/** `packages` is where UEFI_PACKAGES were unpacked. */
export function uefiFiles(packages: string, grubConfig: string): FatFile[] {
  const from = (path: string): FatFile["content"] => ({ file: join(packages, "usr/lib", path) });
  return [
    { path: "EFI/BOOT/BOOTX64.EFI", content: from("shim/shimx64.efi.signed") },
    { path: "EFI/BOOT/grubx64.efi", content: from("grub/x86_64-efi-signed/grubx64.efi.signed") },
    // The folder is built into the signed GRUB.
    { path: "EFI/debian/grub.cfg", content: { text: grubConfig } },
  ];
}
