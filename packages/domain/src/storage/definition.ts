// Storage definitions: the cluster's storage.cfg as records. Section options per type, checked as PVE checks them.
import { isContentType, type ContentType, type VolumeType } from "./content.ts";
import { storageRefused, storageUnsupported } from "./failures.ts";
import { checkMountOptions } from "./mount-options.ts";
import { FILES, implementedTypes, isMounted, storageTypes, type StorageType } from "./storage-types.ts";
import { unknownShape } from "../record/collection.ts";

export type StorageOptionValue = string | number | boolean;

export interface StorageDefinition {
  readonly storage: string;
  readonly type: string;
  /** Section options, without secrets. Lists are stored with commas. */
  readonly options: Readonly<Record<string, StorageOptionValue>>;
  /** The request that had it made, so that who undoes that request takes back nothing else. */
  readonly madeBy?: string;
}

/** Cannot be changed after creation. */
const FIXED = new Set([
  "path",
  "vgname",
  "thinpool",
  "base",
  "portal",
  "target",
  "export",
  "share",
  "datastore",
  "iscsiprovider",
  "snapshot-as-volume-chain",
]);

export const storageCollection = {
  prefix: "/gpve/storage/",
  decode(json: unknown): StorageDefinition {
    const { storage, type: kind, options, madeBy } = (json ?? {}) as Partial<StorageDefinition>;
    if (typeof storage !== "string" || typeof kind !== "string" || typeof options !== "object") {
      throw unknownShape("a storage record in the store");
    }
    return { storage, type: kind, options, ...(typeof madeBy === "string" ? { madeBy } : {}) };
  },
};

/** The definition a first start makes. */
export function defaultStorage(path: string): StorageDefinition {
  return { storage: "local", type: "dir", options: { path, content: orderContent(FILES).join(",") } };
}

/** Checks what a client wants to create; throws with PVE's texts. */
export function newStorageDefinition(
  storage: string,
  kind: string,
  given: Readonly<Record<string, StorageOptionValue>>,
): StorageDefinition {
  const known = typeOf(kind);
  for (const name of Object.keys(given)) requireAllowed(known, name);
  for (const name of known.required) {
    if (given[name] === undefined) throw storageRefused(`missing value for required option '${name}'`);
  }
  requireImplemented(kind);
  if (isMounted({ type: kind })) checkMountOptions(kind, given);
  const place = isMounted({ type: kind }) ? { path: `/mnt/pve/${storage}` } : {};
  const options: Record<string, StorageOptionValue> = { ...place, ...withoutSecrets(known, given) };
  return {
    storage,
    type: kind,
    options: {
      ...checkOptions(known, options),
      content: checkContent(known, options["content"] ?? known.defaultContent.join(",")),
    },
  };
}

/** Applies a PUT: options to set, and those to forget. */
export function changedStorageDefinition(
  before: StorageDefinition,
  given: Readonly<Record<string, StorageOptionValue>>,
  remove: readonly string[],
): StorageDefinition {
  const known = typeOf(before.type);
  for (const name of Object.keys(given)) {
    requireAllowed(known, name);
    if (FIXED.has(name)) throw storageRefused(`can't change value of fixed parameter '${name}'`);
  }
  const set = checkOptions(known, withoutSecrets(known, given));
  if (isMounted(before)) checkMountOptions(before.type, set);
  for (const name of remove) requireRemovable(known, name, given);
  const options: Record<string, StorageOptionValue> = { ...before.options };
  for (const name of remove) delete options[name];
  Object.assign(options, set);
  options["content"] = checkContent(known, options["content"] ?? known.defaultContent.join(","));
  return { ...before, options };
}

export function contentOf(definition: StorageDefinition): ReadonlySet<VolumeType> {
  const types = splitStorageList(text(definition.options["content"]));
  return new Set(types.filter((each): each is VolumeType => isContentType(each) && each !== "none"));
}

/** As PVE prints it. */
export function contentText(definition: StorageDefinition): string {
  return text(definition.options["content"]) ?? "";
}

export function isShared(definition: StorageDefinition): boolean {
  const always = ["nfs", "cifs", "rbd", "cephfs", "iscsi", "iscsidirect", "zfs", "pbs"];
  return definition.options["shared"] === true || always.includes(definition.type);
}

export function isDisabled(definition: StorageDefinition): boolean {
  return definition.options["disable"] === true;
}

/** Whether the definition names this node, or none. */
export function servesNode(definition: StorageDefinition, node: string): boolean {
  const nodes = splitStorageList(text(definition.options["nodes"]));
  return nodes.length === 0 || nodes.includes(node);
}

/** Kept as it was given, used in its shortest form. */
export function storagePath(definition: StorageDefinition): string | undefined {
  const path = text(definition.options["path"]);
  return path === undefined ? undefined : `/${partsOf(path).join("/")}`;
}

/** `content-dirs`: iso=custom/isos,backup=dumps */
export function contentDirs(definition: StorageDefinition): Partial<Record<VolumeType, string>> {
  const out: Partial<Record<VolumeType, string>> = {};
  for (const part of splitStorageList(text(definition.options["content-dirs"]))) {
    const [, name = "", directory = ""] = /^([^=]*)=(.*)$/.exec(part) ?? [];
    if (isContentType(name) && name !== "none" && directory !== "") out[name] = directory.replace(/^\/+/, "");
  }
  return out;
}

export function splitStorageList(value: string | undefined): string[] {
  return (value ?? "").split(/[\s,;]+/).filter((part) => part !== "");
}

function typeOf(kind: string): StorageType {
  const known = Object.hasOwn(storageTypes, kind) ? storageTypes[kind] : undefined;
  if (known === undefined) throw storageRefused(`unknown section type '${kind}'`);
  return known;
}

function requireImplemented(kind: string): void {
  if (implementedTypes.has(kind)) return;
  throw storageUnsupported(
    `storage type '${kind}' is not supported by this version; supported: ${[...implementedTypes].join(", ")}`,
  );
}

function requireAllowed(known: StorageType, name: string): void {
  if (known.required.includes(name) || known.optional.includes(name) || known.secrets.includes(name)) return;
  throw storageRefused(`unexpected property '${name}'`);
}

function requireRemovable(
  known: StorageType,
  name: string,
  given: Readonly<Record<string, StorageOptionValue>>,
): void {
  if (known.required.includes(name)) throw storageRefused(`unable to delete required option '${name}'`);
  if (!known.optional.includes(name) && !known.secrets.includes(name)) {
    throw storageRefused(`no such option '${name}'`);
  }
  if (FIXED.has(name)) throw storageRefused(`unable to delete fixed option '${name}'`);
  if (given[name] !== undefined) {
    throw storageRefused(`cannot set and delete property '${name}' at the same time!`);
  }
}

/** What is kept apart from the definition: passwords and keys. */
export function secretsOf(
  kind: string,
  given: Readonly<Record<string, StorageOptionValue | undefined>>,
): Readonly<Record<string, string>> {
  const secret = (name: string): boolean => typeOf(kind).secrets.includes(name);
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) =>
      typeof value === "string" && secret(name) ? [[name, value]] : [],
    ),
  );
}

function withoutSecrets(
  known: StorageType,
  given: Readonly<Record<string, StorageOptionValue>>,
): Record<string, StorageOptionValue> {
  return Object.fromEntries(Object.entries(given).filter(([name]) => !known.secrets.includes(name)));
}

function checkOptions(
  known: StorageType,
  given: Readonly<Record<string, StorageOptionValue>>,
): Record<string, StorageOptionValue> {
  const out: Record<string, StorageOptionValue> = { ...given };
  const path = out["path"];
  if (typeof path === "string") checkPath(path);
  if (out["snapshot-as-volume-chain"] === true) {
    throw storageUnsupported("'snapshot-as-volume-chain' is not supported by this version");
  }
  if (typeof out["nodes"] === "string") out["nodes"] = splitStorageList(out["nodes"]).join(",");
  if (out["nodes"] === "") delete out["nodes"];
  if (typeof out["content"] === "string") out["content"] = checkContent(known, out["content"]);
  if (typeof out["content-dirs"] === "string") out["content-dirs"] = checkContentDirs(out["content-dirs"]);
  if (out["format"] !== undefined && out["format"] === "subvol") {
    throw storageRefused("invalid default format 'subvol'");
  }
  return out;
}

function checkPath(path: string): void {
  const parts = partsOf(path);
  if (/^\/[-/a-zA-Z0-9_.@]+$/.test(path) && parts.length > 0 && !parts.includes("..")) return;
  throw storageRefused(`illegal path for directory storage: ${path}`);
}

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

function checkContent(known: StorageType, value: StorageOptionValue): string {
  const wanted = splitStorageList(String(value));
  for (const each of wanted) {
    if (!isContentType(each) || !known.content.includes(each)) {
      throw storageRefused(`storage does not support content type '${each}'`);
    }
  }
  if (wanted.length === 0) {
    if (!known.content.includes("none")) throw storageRefused("storage needs at least one content type");
    return "none";
  }
  if (wanted.includes("none") && wanted.length > 1) {
    throw storageRefused("unable to combine 'none' with other content types");
  }
  return orderContent(wanted as ContentType[]).join(",");
}

/** In the order of their types; of two for one type the last counts. */
function checkContentDirs(value: string): string {
  const found = new Map<string, string>();
  for (const part of splitStorageList(value)) {
    const [, name = "", directory = ""] = /^([^=]*)=(.*)$/.exec(part) ?? [];
    if (!isContentType(name) || name === "none" || directory === "" || directory.split("/").includes("..")) {
      throw storageRefused(`invalid content-dirs entry '${part}'`);
    }
    found.set(name, directory);
  }
  return [...found]
    .map(([name, directory]) => `${name}=${directory}`)
    .toSorted()
    .join(",");
}

function orderContent(types: readonly ContentType[]): ContentType[] {
  return [...new Set(types)].toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

function text(value: StorageOptionValue | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}
