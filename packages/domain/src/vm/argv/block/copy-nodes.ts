// Block nodes of a copy that takes the place of a running guest's drive. It comes with a throttle filter of its own and
// replaces the drive from the top: where a drive has an I/O thread, QEMU before 9.0 hangs when only the image below the
// filter is replaced.
import { isObject } from "@gpve/contracts/json-object.ts";
import type { Drive } from "../../config/property-types.ts";
import {
  copyTopName,
  driveNodes,
  throttleGroup,
  throttleGroupId,
  type BlockOptions,
  type DriveNodes,
} from "./block-node.ts";
import { Build } from "../build.ts";
import type { CommandInput } from "../command-input.ts";
import { confidentialKind } from "../processor/confidential.ts";
import { blockContext } from "./drives.ts";
import { efiOptions, firmwareImage } from "../machine/firmware.ts";
import type { JsonObject, JsonValue } from "../text/option-text.ts";

export interface CopyNodes {
  /** Name of the node on top. */
  readonly top: string;
  /** Without limits: what fills the copy must not take from what the guest may do. Arguments of `object-add`. */
  readonly throttleGroup: JsonObject & { readonly id: string };
  /** Arguments of `blockdev-add`. */
  readonly blockdev: JsonObject;
  /** For `blockdev-reopen`, once the guest uses it: as the drive would be after a start. */
  readonly settled: JsonObject | undefined;
}

/** `drive` names the copy; `input` describes the running guest. */
export function copyNodes(input: CommandInput, key: string, drive: Drive): CopyNodes {
  const top = copyTopName(key, drive.file, input.sha256Hex);
  const group = copyGroupId(key);
  const { blockdev } = nodesOf(new Build(input), key, drive, top);
  // Sources do not always know where they are empty: zeroes that are read become holes.
  const filled = { ...writable(blockdev), "detect-zeroes": "unmap" };
  const isThrottled = blockdev["throttle-group"] === throttleGroupId(key);
  return {
    top,
    throttleGroup: { ...throttleGroup(key, {}), id: group },
    blockdev: isThrottled ? { ...filled, "throttle-group": group } : filled,
    settled: isThrottled ? { ...blockdev, file: nameOf(blockdev["file"]) } : undefined,
  };
}

function copyGroupId(key: string): string {
  return `throttle-copy-${key}`;
}

function nodesOf(build: Build, key: string, drive: Drive, top: string): DriveNodes {
  const special: BlockOptions =
    key === "efidisk0"
      ? efiOptions(build, firmwareImage(build.host, build.arch, drive, build.q35, confidentialKind(build)))
      : {};
  return driveNodes(blockContext(build), key, drive, { ...special, top });
}

/** All the way down: QEMU writes to it, and where the source is empty the copy is too. */
function writable(node: JsonObject): JsonObject {
  const { file } = node;
  return {
    ...node,
    "read-only": false,
    discard: "unmap",
    ...(isObject(file) ? { file: writable(file) } : {}),
  };
}

function nameOf(node: JsonValue | undefined): JsonValue {
  return (isObject(node) ? node["node-name"] : node) ?? null;
}
