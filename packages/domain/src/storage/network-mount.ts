// Storages that are a server's folder, mounted: what is mounted, where, and with which options. Pure.
import { given } from "@gpve/contracts/given.ts";
import { storagePath, type StorageDefinition } from "./definition.ts";
import { storageRefused } from "./failures.ts";
import { optionText as text, splitOptions, folderNames } from "./mount-options.ts";

export interface NetworkMount {
  readonly storage: string;
  readonly fsType: "nfs" | "cifs";
  /** "nas:/export" or "//nas/share". */
  readonly source: string;
  readonly point: string;
  /** For mount's -o, without who logs in. */
  readonly options: readonly string[];
  /** Of `cifs`: who logs in; absent = a guest. */
  readonly login?: { readonly username: string; readonly domain?: string };
}

/** Nothing on a server's folder is a device of this host, or runs as somebody else here. */
const ALWAYS = ["nosuid", "nodev"];
/**
 * A share has no owners that we could give: QEMU reads and writes its own images, which alone are in its view; on the host
 * nobody but root gets into the folder.
 */
const SHARE_MODES = ["uid=0", "gid=0", "file_mode=0666", "dir_mode=0700"];

export function networkMountOf(definition: StorageDefinition): NetworkMount {
  const { storage, options } = definition;
  const point = storagePath(definition);
  const server = text(options["server"]);
  if (point === undefined || server === undefined)
    throw storageRefused(`storage '${storage}' has no server or no path`);
  const host = server.includes(":") ? `[${server}]` : server;
  const own = splitOptions(text(options["options"]));
  if (definition.type === "nfs") {
    const source = `${host}:${plain(text(options["export"]) ?? "/")}`;
    return { storage, fsType: "nfs", source, point, options: [...own, ...ALWAYS] };
  }
  const version = text(options["smbversion"]);
  const username = text(options["username"]);
  const domain = text(options["domain"]);
  const subdir = folderNames(text(options["subdir"]) ?? "").map((part) => `/${part}`);
  return {
    storage,
    fsType: "cifs",
    source: `//${server}/${text(options["share"]) ?? ""}${subdir.join("")}`,
    point,
    options: [
      "soft",
      // Locks of a share keep their own holder from writing, and QEMU locks what it writes to.
      "nobrl",
      ...SHARE_MODES,
      ...(version === undefined || version === "default" ? [] : [`vers=${version}`]),
      ...own,
      ...ALWAYS,
    ],
    ...given({ login: username === undefined ? undefined : { username, ...given({ domain }) } }),
  };
}

/** What mount.cifs reads: a file of its own, so that nobody sees it among the processes. */
export function credentialsText(
  { username, domain }: NonNullable<NetworkMount["login"]>,
  password: string,
): string {
  if (/[\r\n\0]/.test(password)) throw storageRefused("the password of the storage has a line break");
  const lines = [
    `username=${username}`,
    `password=${password}`,
    ...(domain === undefined ? [] : [`domain=${domain}`]),
  ];
  return `${lines.join("\n")}\n`;
}

function plain(path: string): string {
  return `/${folderNames(path).join("/")}`;
}
