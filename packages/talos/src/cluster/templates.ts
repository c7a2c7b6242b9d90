// Templates: one per version and role, from which machines are cloned. A template is known by its name, which says what
// it was made from: another version, another image or other hardware is another template.
import { createHash } from "node:crypto";
import { imageFile } from "../image/image-file.ts";
import { machineUuid } from "../machine/identity.ts";
import type { Cluster } from "./cluster.ts";
import type { Machine } from "./machine.ts";

/** Beside the cluster's own tag; whatever has it is never a machine. */
export const TEMPLATE_TAG = "talos-template";

export type CloneMode = "full" | "linked";

/** undefined: machines are made from the image itself. */
export function cloneMode({ templates }: Pick<Cluster, "templates">): CloneMode | undefined {
  if (templates.clone !== null) return templates.clone;
  const isNamed = templates.controlPlane !== null || templates.worker !== null;
  return isNamed || templates.nodes.length > 0 || templates.tags.length > 0 ? "full" : undefined;
}

/** `host`: where templates of local storages lie; undefined where all nodes see the same disks. */
export function templateName(cluster: Cluster, machine: Machine, host: string | undefined): string {
  const storage = cluster.providers.find(({ name }) => name === machine.provider)?.storage;
  const { bios, scsihw, cloudInitDrive } = machine.size;
  const drive = machine.arch === "arm64" ? "scsi30" : cloudInitDrive;
  const { name } = imageFile(cluster, machine.arch, machine.extensions);
  const hardware = [bios, scsihw, drive, cluster.talos.diskEncryption, storage, host ?? null];
  const print = createHash("sha256")
    .update(JSON.stringify([name, machine.role, hardware]), "utf8")
    .digest("hex")
    .slice(0, 6);
  const version = cluster.versions.talos.replace(/^v?/, "v").replaceAll(/[^0-9a-z]+/gi, "-");
  const role = machine.role === "controlplane" ? "cp" : "worker";
  // A host name's part has 63 characters at most; what is cut off is in the print.
  return `${cluster.metadata.name}-tpl-${role}-${version}`.slice(0, 56).replace(/-+$/, "") + `-${print}`;
}

/** Apart from those of machines, whatever somebody calls a pool. */
export const templateUuid = (cluster: string, name: string): string =>
  machineUuid(cluster, `template/${name}`);

/** Stands in a clone's description until it has the identity of its machine. */
export const cloneMark = (uuid: string): string => `to become ${uuid}`;
