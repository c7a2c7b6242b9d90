// All drives of a guest but the firmware's: their nodes, controllers and devices, in PVE's order.
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { refused } from "../../../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Drive } from "../../config/property-types.ts";
import { listDrives, whyNotEmpty } from "../../config/drive.ts";
import { driveNodes, findVolume, isPassedThrough, throttleLimits, type BlockContext } from "./block-node.ts";
import type { Build } from "../build.ts";
import type { ResolvedVolume } from "../command-input.ts";
import {
  driveDevice,
  iothreadId,
  scsiController,
  scsiControllerDevice,
  splitDriveKey,
  type DriveDeviceContext,
} from "./drive-device.ts";
import { legacyDrive } from "./legacy-drive.ts";
import { device } from "../text/option-text.ts";
import { addressProperties } from "../device/pci-address.ts";

const OLD_SCSI_DISKS = 14;

export function blockContext(build: Build): BlockContext {
  return {
    sha256Hex: build.input.sha256Hex,
    volumes: build.input.volumes,
    ioUring: build.host.ioUring || !build.stock,
    discardNoUnref: build.knows("discard-no-unref"),
    cachesOdd: build.stock,
    namesBacking: build.stock,
    letsGo: build.stock,
  };
}

export function deviceContext(build: Build, key: string): DriveDeviceContext {
  const bootIndex = build.bootIndexes.get(key);
  return {
    scsihw: build.values["scsihw"],
    q35: build.q35,
    template: build.isTemplate,
    blockdev: build.usesBlockdev,
    iscsiGeneric: !build.since(4, 1),
    place: (id) => build.pci.place(id),
    ...given({ bootIndex }),
  };
}

export function addDrives(build: Build): void {
  const controllers = new Set<string>();
  for (const { key, drive } of listDrives(build.values)) {
    const { bus } = splitDriveKey(key);
    if (bus === "efidisk" || bus === "tpmstate") continue;
    addController(build, key, drive, controllers);
    const volume = addNode(build, key, drive);
    build.addDevice(driveDevice(deviceContext(build, key), key, drive, volume));
  }
}

function addController(build: Build, key: string, drive: Drive, known: Set<string>): void {
  const { bus, index } = splitDriveKey(key);
  const scsihw = build.values["scsihw"];
  const iothread = iothreadId(scsihw, key, drive);
  if (iothread !== undefined) build.cmd.push("-object", `iothread,id=${iothread}`);
  if (bus === "scsi") {
    if (index >= OLD_SCSI_DISKS && !build.guard(4, 1, 2)) {
      throw refused(`${key}: machine version 4.1~pve2 or higher is required to use more than 14 SCSI disks`);
    }
    if (drive.iothread === true && iothread === undefined) {
      build.warnings.push(
        "iothread is only valid with virtio disk or virtio-scsi-single controller, ignoring",
      );
    }
    const { id } = scsiController(scsihw, index);
    const address = build.pci.place(id);
    if (!known.has(id)) build.addDevice(scsiControllerDevice(scsihw, id, drive, address));
    known.add(id);
  }
  if (bus === "sata" && !known.has("ahci0")) {
    known.add("ahci0");
    build.addDevice(
      device(
        "ahci",
        ["id", "ahci0"],
        ["multifunction", true],
        ...addressProperties(build.pci.place("ahci0")),
      ),
    );
  }
}

function addNode(build: Build, key: string, drive: Drive): ResolvedVolume | undefined {
  const context = blockContext(build);
  if (!build.usesBlockdev) {
    const { bus } = splitDriveKey(key);
    const readOnly = build.isTemplate && bus !== "ide" && bus !== "sata";
    const volume = drive.file === "none" ? undefined : findVolume(context, key, drive);
    build.devices.push("-drive", legacyDrive(context, key, drive, volume, readOnly));
    return volume;
  }
  if (drive.file === "none") {
    // PVE gives QEMU the device without anything in it, which QEMU refuses in words of its own.
    const reason = build.stock ? whyNotEmpty(drive) : undefined;
    if (reason !== undefined) throw refused(`${key}: ${reason}`);
    return undefined;
  }
  const nodes = driveNodes(context, key, drive, { readOnly: build.isTemplate });
  const dropped = isPassedThrough(drive, nodes.volume) ? Object.keys(throttleLimits(drive)) : [];
  if (dropped.length > 0)
    build.warnings.push(
      `${key}: SCSI commands are passed through to '${drive.file}', so it has no limits (${dropped.join(", ")})`,
    );
  build.cmd.push("-object", canonicalJson(nodes.throttleGroup));
  build.devices.push("-blockdev", canonicalJson(nodes.blockdev));
  return nodes.volume;
}
