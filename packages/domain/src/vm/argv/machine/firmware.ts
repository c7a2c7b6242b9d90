// OVMF: which images, and the variable store of the guest.
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { refused } from "../../../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Drive } from "../../config/property-types.ts";
import { requireDrive } from "../../config/drive.ts";
import { driveNodes, findVolume, type BlockOptions } from "../block/block-node.ts";
import type { Build } from "../build.ts";
import { isCpu32bit } from "../processor/cpu.ts";
import { blockContext } from "../block/drives.ts";
import type { FirmwareImage, GuestArch, HostFacts } from "../host-facts.ts";
import { legacyPath } from "../block/legacy-drive.ts";

export type ConfidentialKind = "std" | "es" | "snp" | "tdx";

export function addFirmware(build: Build, confidential: ConfidentialKind | undefined): void {
  if (build.values["bios"] !== "ovmf") return;
  if (build.options.cpu === undefined && isCpu32bit(build))
    throw refused("OVMF (UEFI) BIOS is not supported on 32-bit CPU types");
  const text = build.values["efidisk0"];
  const disk = text === undefined ? undefined : requireDrive("efidisk0", text);
  const image = firmwareImage(build.host, build.arch, disk, build.q35, confidential);
  if (confidential === "snp" || confidential === "tdx") {
    if (disk !== undefined) {
      build.warnings.push(
        "EFI disks are not supported with Confidential Virtual Machines and will be ignored",
      );
    }
    build.cmd.push("-bios", image.code);
    return;
  }
  if (disk === undefined) build.warnings.push("no efidisk configured! Using temporary efivars disk.");
  else if (disk.file.startsWith("/") && disk.format === undefined)
    throw refused("efidisk format must be specified");
  if (build.usesBlockdev) addBlockdev(build, image, disk);
  else addLegacy(build, image, disk);
}

/** The images for a guest; also the template of a new EFI disk. */
export function firmwareImage(
  host: HostFacts,
  arch: GuestArch,
  disk: Pick<Drive, "efitype" | "pre-enrolled-keys"> | undefined,
  q35: boolean,
  confidential?: ConfidentialKind,
): FirmwareImage {
  const kind = `${arch}/${arch === "x86_64" ? x86Kind(disk, q35, confidential) : armKind(host, disk)}`;
  const image = host.firmware[kind];
  if (image === undefined) throw refused(`EFI base image for '${kind}' not found`);
  return image;
}

function x86Kind(
  disk: Pick<Drive, "efitype" | "pre-enrolled-keys"> | undefined,
  q35: boolean,
  confidential?: ConfidentialKind,
): string {
  if (confidential === "snp" || confidential === "tdx") return `4m-${confidential}`;
  if (confidential !== undefined) return "4m-sev";
  if (disk?.efitype !== "4m") return "default";
  // Secure boot is only enforced where the firmware has SMM, which is q35.
  return `4m${q35 ? "" : "-no-smm"}${disk["pre-enrolled-keys"] === true ? "-ms" : ""}`;
}

/** Older firmware packages have no image that enforces secure boot: guests then go without, as they always did. */
function armKind(host: HostFacts, disk: Pick<Drive, "pre-enrolled-keys"> | undefined): string {
  return disk?.["pre-enrolled-keys"] === true && host.firmware["aarch64/ms"] !== undefined ? "ms" : "default";
}

function addBlockdev(build: Build, image: FirmwareImage, disk: Drive | undefined): void {
  const drive = disk ?? { file: build.input.paths.efiVars, format: "raw" };
  const code = {
    driver: "raw",
    file: { driver: "file", filename: image.code },
    "node-name": "pflash0",
    "read-only": true,
  };
  const vars = driveNodes(blockContext(build), "efidisk0", drive, efiOptions(build, image));
  build.cmd.push("-object", canonicalJson(vars.throttleGroup));
  build.cmd.push("-blockdev", canonicalJson(code), "-blockdev", canonicalJson(vars.blockdev));
  build.machineFlags.push("pflash0=pflash0", "pflash1=drive-efidisk0");
}

/** How the node of an EFI disk differs from any other disk's. */
export function efiOptions(build: Build, { varsBytes }: FirmwareImage): BlockOptions {
  return {
    readOnly: build.isTemplate,
    cache: "writeback",
    ...given({ bytes: varsBytes }),
  };
}

function addLegacy(build: Build, image: FirmwareImage, disk: Drive | undefined): void {
  const parts = ["if=pflash,unit=1,id=drive-efidisk0"];
  const size = (format: string) => {
    if (format === "raw" && image.varsBytes !== undefined && build.guard(4, 1, 2))
      parts.push(`size=${image.varsBytes}`);
  };
  if (disk === undefined) {
    parts.push("format=raw", `file=${build.input.paths.efiVars}`);
    size("raw");
  } else {
    // Only -blockdev compares the two.
    const { format: asked, ...rest } = disk;
    const volume = findVolume(build.input, "efidisk0", rest);
    const format = asked ?? volume.format;
    const path = legacyPath(volume);
    const rbd = path.startsWith("rbd:");
    if (rbd) parts.push("cache=writeback");
    parts.push(`format=${format}`, `file=${path}${rbd ? ":rbd_cache_policy=writeback" : ""}`);
    size(format);
    if (build.isTemplate) parts.push("readonly=on");
  }
  build.cmd.push("-drive", `if=pflash,unit=0,format=raw,readonly=on,file=${image.code}`);
  build.cmd.push("-drive", parts.join(","));
}
