// The files of a VM's cloud-init drive, and what `GET cloudinit/dump` shows of them.
import { refused } from "../../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { CloudinitFiles } from "../config/property-types.ts";
import type { VmValues } from "../config/vm-config.ts";
import { readVmProperty } from "../config/vm-properties.ts";
import { type CloudinitFacts, cloudinitType, isWindows } from "./cloudinit-source.ts";
import {
  cloudbaseMetaData,
  cloudbaseNetwork,
  configDriveMetaData,
  configDriveNetwork,
  openNebulaContext,
} from "./config-drive.ts";
import { networkConfigV1, networkConfigV2 } from "./network-config.ts";
import { cloudinitUserData } from "./user-data.ts";

export interface CloudinitDrive {
  /** The volume label by which a guest finds the drive. */
  readonly label: "cidata" | "config-2" | "CONTEXT";
  /** Contents by path, without a leading slash. */
  readonly files: Readonly<Record<string, string>>;
}

export interface CloudinitDriveFacts extends CloudinitFacts {
  readonly base64: (text: string) => string;
  /** The text of a snippet volume named in `cicustom`. */
  readonly snippet: (volumeId: string) => Promise<string>;
  /** Of NoCloud's network-config; default 1, as PVE. */
  readonly networkVersion?: 1 | 2;
}

/** The volume PVE allocates; the files may take up to three quarters of it. */
export const CLOUDINIT_DRIVE_BYTES = 4 * 1024 * 1024;
const MOST_CONTENT = 3 * 1024 * 1024;

export async function cloudinitDrive(values: VmValues, facts: CloudinitDriveFacts): Promise<CloudinitDrive> {
  const type = cloudinitType(values);
  if (type === "opennebula") {
    return { label: "CONTEXT", files: { "context.sh": openNebulaContext(values, facts, facts.base64) } };
  }
  const custom = await customFiles(values, facts);
  const user = custom.user ?? cloudinitUserData(values, facts);
  const network = custom.network ?? networkOf(values, facts);
  const meta = custom.meta ?? metaOf(values, facts, user, network);
  const vendor = custom.vendor ?? "";
  const bytes = new TextEncoder().encode(user + network + meta + vendor).length;
  if (bytes > MOST_CONTENT) {
    throw refused("Cloud-Init sum of snippets too big (> 3 MiB)\n");
  }
  if (type === "nocloud") {
    const files = { "user-data": user, "network-config": network, "meta-data": meta, "vendor-data": vendor };
    return { label: "cidata", files };
  }
  return {
    label: "config-2",
    files: {
      "openstack/latest/user_data": user,
      "openstack/content/0000": network,
      "openstack/latest/meta_data.json": meta,
      "openstack/latest/vendor_data.json": vendor,
    },
  };
}

/** As PVE: made from the configuration alone, without custom snippets, Windows shown as Linux. */
export function dumpCloudinit(
  values: VmValues,
  facts: CloudinitFacts,
  type: "user" | "network" | "meta",
): string {
  const nocloud = cloudinitType(values) === "nocloud";
  const network = (): string =>
    nocloud ? networkConfigV1(values, facts) : configDriveNetwork(values, facts);
  if (type === "user") return cloudinitUserData(values, facts);
  if (type === "network") return network();
  const id = facts.sha1(cloudinitUserData(values, facts) + network());
  return nocloud ? noCloudMetaData(id) : configDriveMetaData(id);
}

function networkOf(values: VmValues, facts: CloudinitDriveFacts): string {
  if (cloudinitType(values) !== "nocloud") {
    return isWindows(values) ? cloudbaseNetwork(values, facts) : configDriveNetwork(values, facts);
  }
  return facts.networkVersion === 2 ? networkConfigV2(values, facts) : networkConfigV1(values, facts);
}

/** The instance id changes with the content, so that a guest obeys again after a change. */
function metaOf(values: VmValues, facts: CloudinitFacts, user: string, network: string): string {
  const id = facts.sha1(user + network);
  if (cloudinitType(values) === "nocloud") return noCloudMetaData(id);
  return isWindows(values) ? cloudbaseMetaData(values, id) : configDriveMetaData(id);
}

function noCloudMetaData(id: string): string {
  return `instance-id: ${id}\n`;
}

async function customFiles(values: VmValues, facts: CloudinitDriveFacts): Promise<CloudinitFiles> {
  const text = values["cicustom"];
  if (text === undefined || text === "") return {};
  const volumes = readVmProperty("cicustom", text, "cicustom");
  const read = async (volume: string | undefined): Promise<string | undefined> =>
    volume === undefined ? undefined : facts.snippet(volume);
  const [user, network, meta, vendor] = await Promise.all(
    [volumes.user, volumes.network, volumes.meta, volumes.vendor].map(read),
  );
  return {
    ...given({ user, network, meta, vendor }),
  };
}
