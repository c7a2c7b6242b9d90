// Storage definitions: the cluster's storage.cfg as records. Section options per type, checked as PVE checks them.
import { AppError } from "@gpve/contracts/errors.ts";
import { isContentType, type ContentType, type VolumeType } from "./content.ts";
import { storageRefused, storageUnsupported } from "./failures.ts";

export type StorageOptionValue = string | number | boolean;

export interface StorageDefinition {
  readonly storage: string;
  readonly type: string;
  /** Section options, without secrets. Lists are stored with commas. */
  readonly options: Readonly<Record<string, StorageOptionValue>>;
}

interface StorageType {
  readonly required: readonly string[];
  readonly optional: readonly string[];
  readonly content: readonly ContentType[];
  readonly defaultContent: readonly ContentType[];
  readonly secrets: readonly string[];
}

const COMMON = ["nodes", "disable", "content", "bwlimit"];
const FILES: readonly ContentType[] = ["images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import"];
const DISKS: readonly ContentType[] = ["images", "rootdir"];
const FILE_OPTIONS = [
  "content-dirs",
  "prune-backups",
  "max-protected-backups",
  "format",
  "mkdir",
  "create-base-path",
  "create-subdirs",
  "preallocation",
];

const type = (
  required: readonly string[],
  optional: readonly string[],
  content: readonly ContentType[],
  defaultContent: readonly ContentType[],
  secrets: readonly string[] = [],
): StorageType => ({ required, optional: [...COMMON, ...optional], content, defaultContent, secrets });

/** Every type PVE knows. Those without a plugin here are refused after their parameters were checked. */
export const storageTypes: Readonly<Record<string, StorageType>> = {
  dir: type(
    ["path"],
    [...FILE_OPTIONS, "shared", "is_mountpoint", "snapshot-as-volume-chain"],
    [...FILES, "none"],
    DISKS,
  ),
  btrfs: type(["path"], [...FILE_OPTIONS, "shared", "is_mountpoint", "nocow"], [...FILES, "none"], DISKS),
  nfs: type(["server", "export"], [...FILE_OPTIONS, "path", "options", "snapshot-as-volume-chain"], FILES, [
    "images",
  ]),
  cifs: type(
    ["server", "share"],
    [
      ...FILE_OPTIONS,
      "path",
      "username",
      "domain",
      "smbversion",
      "options",
      "subdir",
      "snapshot-as-volume-chain",
    ],
    FILES,
    ["images"],
    ["password"],
  ),
  cephfs: type(
    [],
    [...FILE_OPTIONS, "path", "monhost", "username", "subdir", "fuse", "options", "fs-name"],
    ["vztmpl", "iso", "backup", "snippets", "import"],
    ["backup"],
    ["keyring"],
  ),
  lvm: type(
    ["vgname"],
    [
      "shared",
      "base",
      "saferemove",
      "saferemove_throughput",
      "saferemove-stepsize",
      "tagged_only",
      "snapshot-as-volume-chain",
    ],
    DISKS,
    ["images"],
  ),
  lvmthin: type(["thinpool", "vgname"], [], DISKS, DISKS),
  zfspool: type(["pool"], ["blocksize", "sparse", "mountpoint"], DISKS, DISKS),
  zfs: type(
    ["portal", "target", "pool", "blocksize", "iscsiprovider"],
    ["nowritecache", "sparse", "comstar_hg", "comstar_tg", "lio_tpg", "zfs-base-path"],
    ["images"],
    ["images"],
  ),
  rbd: type(
    [],
    ["monhost", "pool", "data-pool", "namespace", "username", "krbd"],
    DISKS,
    ["images"],
    ["keyring"],
  ),
  iscsi: type(["portal", "target"], [], ["images", "none"], ["images"]),
  iscsidirect: type(["portal", "target"], [], ["images", "none"], ["images"]),
  pbs: type(
    ["server", "datastore"],
    [
      "port",
      "namespace",
      "username",
      "fingerprint",
      "prune-backups",
      "max-protected-backups",
      "skip-cert-verification",
    ],
    ["backup", "none"],
    ["backup"],
    ["password", "encryption-key", "master-pubkey"],
  ),
  esxi: type(
    ["server", "username"],
    ["port", "skip-cert-verification"],
    ["import"],
    ["import"],
    ["password"],
  ),
};

const WITH_PLUGIN = ["dir", "lvmthin"] as const;
/** Types that agents have a plugin for; their table of plugins does not compile without one for each. */
export type ImplementedType = (typeof WITH_PLUGIN)[number];
export const implementedTypes: ReadonlySet<string> = new Set(WITH_PLUGIN);

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
    const { storage, type: kind, options } = (json ?? {}) as Partial<StorageDefinition>;
    if (typeof storage !== "string" || typeof kind !== "string" || typeof options !== "object") {
      throw new AppError(
        "data.newer_version",
        "a storage record in the store has a shape this version does not know",
      );
    }
    return { storage, type: kind, options };
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
  const options = withoutSecrets(known, given);
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
