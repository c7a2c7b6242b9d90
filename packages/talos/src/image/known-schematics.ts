// A schematic's id says nothing by itself. Of the few extensions that most machines have, every choice can be tried.
import { schematicId } from "./schematic.ts";

const COMMON = [
  "qemu-guest-agent",
  "iscsi-tools",
  "util-linux-tools",
  "intel-ucode",
  "amd-ucode",
  "i915",
  "i915-ucode",
  "amdgpu",
  "amdgpu-firmware",
  "mei",
  "nfsd",
  "nfs-utils",
  "zfs",
  "drbd",
  "btrfs",
  "gvisor",
  "fuse3",
  "thunderbolt",
  "tailscale",
  "nut-client",
  "realtek-firmware",
  "nonfree-kmod-nvidia-production",
  "nvidia-container-toolkit-production",
  "nonfree-kmod-nvidia-lts",
  "nvidia-container-toolkit-lts",
].map((name) => `siderolabs/${name}`);

/** More would take seconds. */
const MOST = 4;

/** undefined: it has others, or arguments for the kernel. */
export function extensionsOfSchematic(id: string): readonly string[] | undefined {
  for (let size = 0; size <= MOST; size += 1)
    for (const extensions of ofSize(COMMON, size))
      if (schematicId({ extensions, kernelArgs: [] }) === id) return extensions;
  return undefined;
}

function* ofSize(names: readonly string[], size: number): Generator<readonly string[]> {
  if (size === 0) {
    yield [];
    return;
  }
  for (const [at, name] of names.entries())
    for (const rest of ofSize(names.slice(at + 1), size - 1)) yield [name, ...rest];
}
