// `storage.plugins` of an agent's configuration as definitions of storages. Types and settings may have the names that
// storage systems use (`lvm` with a `thinPool`) or PVE's own (`lvmthin`, `thinpool`).
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  newStorageDefinition,
  secretsOf,
  type StorageDefinition,
  type StorageOptionValue,
} from "@gpve/domain/storage/definition.ts";
import { implementedTypes } from "@gpve/domain/storage/storage-types.ts";
import type { AgentConfiguration } from "@gpve/kit/config/configuration.ts";

type Plugin = AgentConfiguration["storage"]["plugins"][number];

const OPTION_NAMES: Readonly<Record<string, string>> = { vgName: "vgname", thinPool: "thinpool" };

/** Throws config.invalid with the key of the first that cannot be. */
export function declaredStorages(plugins: readonly Plugin[]): readonly StorageDefinition[] {
  const seen = new Set<string>();
  return plugins.map((plugin, at) => {
    const key = `storage.plugins[${at}]`;
    if (seen.has(plugin.name)) throw invalid(`${key}.name: '${plugin.name}' is declared twice`);
    seen.add(plugin.name);
    return declared(plugin, key);
  });
}

function declared({ name, type: kind, config }: Plugin, key: string): StorageDefinition {
  const options = optionsOf(config, key);
  const type = typeOf(kind, options);
  if (!implementedTypes.has(type)) {
    const known = [...implementedTypes].join(", ");
    throw invalid(
      `${key}.type: '${kind}' (storage '${name}') is a type that this version has no plugin for; it has ${known}. Leave the storage out, or lay it on one of these`,
    );
  }
  const [secret] = Object.keys(secretsOf(type, options));
  if (secret !== undefined)
    throw invalid(
      `${key}.config.${secret}: storage '${name}': what is secret of a storage is not read from this file; define it with 'gpvectl storage create'`,
    );
  try {
    return newStorageDefinition(name, type, options);
  } catch (err) {
    const details = err instanceof AppError ? Object.entries(err.errors ?? {}) : [];
    const why = details.map(([option, text]) => `${option}: ${text.trim()}`).join("; ");
    throw invalid(`${key}.config: storage '${name}': ${why === "" ? messageOf(err).trim() : why}`, err);
  }
}

function optionsOf(config: unknown, key: string): Record<string, StorageOptionValue> {
  if (config === undefined || config === null) return {};
  if (typeof config !== "object" || Array.isArray(config))
    throw invalid(`${key}.config: must be a map of settings`);
  return Object.fromEntries(
    Object.entries(config).map(([name, value]): [string, StorageOptionValue] => {
      if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean")
        throw invalid(`${key}.config.${name}: must be a text, a number, true or false`);
      return [OPTION_NAMES[name] ?? name, value];
    }),
  );
}

function typeOf(kind: string, options: Readonly<Record<string, StorageOptionValue>>): string {
  if (kind === "lvm" && options["thinpool"] !== undefined) return "lvmthin";
  // PVE's `zfs` is ZFS on another machine; a pool of this one is meant.
  return kind === "zfs" && options["portal"] === undefined ? "zfspool" : kind;
}

function invalid(message: string, cause?: unknown): AppError {
  return new AppError("config.invalid", message, cause === undefined ? {} : { cause });
}
