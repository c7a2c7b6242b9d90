// Whether a guest that is down can be started on another node: only what both nodes reach is there too.
import { currentSection } from "../guest/guest-record.ts";
import { isDisabled, isShared, servesNode, type StorageDefinition } from "../storage/definition.ts";

const VOLUME_KEY = /^(?:ide|sata|scsi|virtio|efidisk|tpmstate|rootfs|mp)\d*$/;
const DEVICE_KEY = /^(?:hostpci|usb)\d+$/;

/** What a node says of itself; undefined = it has not. */
export interface NodeReach {
  /** Storages that are usable there now. */
  readonly storages?: ReadonlySet<string> | undefined;
  readonly bridges?: readonly string[] | undefined;
}

const CARD_KEY = /^net\d+$/;

/** Why not; undefined = it can. */
export function whyNotOn(
  guest: { readonly conf: string } | undefined,
  storages: readonly StorageDefinition[],
  target: string,
  { storages: active, bridges }: NodeReach = {},
): string | undefined {
  if (guest === undefined) return "its configuration is not here";
  for (const [key, value] of currentSection(guest.conf)) {
    if (DEVICE_KEY.test(key) && !/(?:^|,)(?:mapping=|spice)/.test(value))
      return `${key} is a device of the node it was on`;
    const bridge = CARD_KEY.test(key) ? /(?:^|,)bridge=([^,]+)/.exec(value)?.[1] : undefined;
    if (bridge !== undefined && bridges?.includes(bridge) === false)
      return `${key} is on bridge ${bridge}, which ${target} does not have`;
    if (!VOLUME_KEY.test(key)) continue;
    const volume = value.split(",")[0]?.replace(/^(?:file|volume)=/, "") ?? "";
    if (volume === "none" || volume === "cdrom") continue;
    const storage = /^([^:/]+):/.exec(volume)?.[1];
    if (storage === undefined) return `${key} is ${volume}, which is of the node it was on`;
    const definition = storages.find((each) => each.storage === storage);
    if (definition === undefined) return `${key} is on storage ${storage}, which does not exist`;
    if (!isShared(definition)) return `${key} is on storage ${storage}, which is not shared`;
    if (isDisabled(definition) || !servesNode(definition, target))
      return `${key} is on storage ${storage}, which ${target} does not have`;
    if (active?.has(storage) === false)
      return `${key} is on storage ${storage}, which is not active on ${target}`;
  }
  return undefined;
}
