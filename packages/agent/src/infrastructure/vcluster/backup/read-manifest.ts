// What an archive of a virtual cluster says of itself, believed only as far as it has the right shape.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ClusterManifest } from "@gpve/domain/vcluster/backup/cluster-saves.ts";

const MANIFEST_FORMAT = "gpve-vcluster-backup";
const MANIFEST_VERSION = 1;

export function manifestText(manifest: ClusterManifest): string {
  return `${JSON.stringify({ format: MANIFEST_FORMAT, version: MANIFEST_VERSION, ...manifest }, undefined, 2)}\n`;
}

export function readManifest(path: string, text: string): ClusterManifest {
  const read = parsed(path, text);
  if (read["format"] !== MANIFEST_FORMAT) throw noArchive(path, "its manifest is another program's");
  if (typeof read["version"] !== "number" || read["version"] > MANIFEST_VERSION)
    throw new AppError(
      "data.newer_version",
      `${path} is of format ${String(read["version"])}; this version reads up to ${MANIFEST_VERSION}`,
    );
  const { spec, volumes } = read;
  if (typeof spec !== "object" || spec === null || !Array.isArray(volumes))
    throw noArchive(path, "its manifest is incomplete");
  const word = (field: string): string => {
    const value = read[field];
    if (typeof value === "string" && value !== "") return value;
    throw noArchive(path, `its manifest has no '${field}'`);
  };
  return {
    name: word("name"),
    tenant: word("tenant"),
    spec: spec as Readonly<Record<string, unknown>>,
    kubernetesVersion: word("kubernetesVersion"),
    createdAt: word("createdAt"),
    revision: Number(read["revision"]),
    objects: Number(read["objects"]),
    volumes: volumes.map(String),
  };
}

function parsed(path: string, text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw noArchive(path, messageOf(cause));
  }
}

function noArchive(path: string, why: string): AppError {
  return new AppError("request.invalid", `${path} is no backup of a virtual cluster: ${why}`);
}
