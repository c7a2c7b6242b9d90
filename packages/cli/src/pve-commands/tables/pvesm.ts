// `pvesm`: the names, methods and positional arguments of PVE's.
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import type { CallCommand, CommandGroup, ValueSource } from "../command-entry.ts";
import { extractConfig, pruneBackups, volumePath } from "../own/storage-commands.ts";
import { showColumns, showContent, showPruned, showStorages } from "../output/storage-texts.ts";

const number: PveSchema = { type: "integer", minimum: 0, optional: true };
const secrets: Readonly<Record<string, ValueSource>> = { password: "password" };
const stream =
  "volumes are moved between nodes by their agents; `qm disk import` takes a file of this machine";

const scan = (
  type: "nfs" | "cifs" | "iscsi" | "lvm" | "lvmthin" | "zfs",
  args: readonly string[],
  keys: readonly string[],
): CallCommand => ({ call: `GET /nodes/{node}/scan/${type}`, args, show: showColumns(keys) });

export const pvesm: CommandGroup = {
  commands: {
    add: { call: "POST /storage", args: ["type", "storage"], from: secrets },
    set: { call: "PUT /storage/{storage}", args: ["storage"], from: secrets },
    remove: { call: "DELETE /storage/{storage}", args: ["storage"] },
    status: { call: "GET /nodes/{node}/storage", args: [], show: showStorages },
    list: { call: "GET /nodes/{node}/storage/{storage}/content", args: ["storage"], show: showContent },
    alloc: {
      call: "POST /nodes/{node}/storage/{storage}/content",
      args: ["storage", "vmid", "filename", "size"],
      show: (data, line) => line(`successfully created '${String(data)}'`),
    },
    free: {
      call: "DELETE /nodes/{node}/storage/{storage}/content/{volume}",
      args: ["volume"],
      storageOfVolume: true,
    },
    scan: {
      commands: {
        nfs: scan("nfs", ["server"], ["path", "options"]),
        cifs: scan("cifs", ["server"], ["share", "description"]),
        iscsi: scan("iscsi", ["portal"], ["target", "portal"]),
        lvm: scan("lvm", [], ["vg"]),
        lvmthin: scan("lvmthin", ["vg"], ["lv"]),
        zfs: scan("zfs", [], ["pool"]),
        pbs: {
          call: "GET /nodes/{node}/scan/pbs",
          args: ["server", "username"],
          formats: true,
          from: secrets,
        },
      },
    },
    nfsscan: { alias: "scan nfs" },
    cifsscan: { alias: "scan cifs" },
    iscsiscan: { alias: "scan iscsi" },
    lvmscan: { alias: "scan lvm" },
    lvmthinscan: { alias: "scan lvmthin" },
    zfsscan: { alias: "scan zfs" },
    path: {
      own: volumePath,
      args: ["volume"],
      parameters: { volume: { type: "string", format: "pve-volume-id" } },
    },
    extractconfig: { own: extractConfig, args: ["volume"], parameters: { volume: { type: "string" } } },
    "prune-backups": {
      own: pruneBackups,
      args: ["storage"],
      parameters: {
        storage: { type: "string", format: "pve-storage-id" },
        "dry-run": { type: "boolean", optional: true },
        type: { type: "string", enum: ["qemu", "lxc"], optional: true },
        vmid: { type: "integer", minimum: 100, maximum: 999_999_999, optional: true },
        "keep-all": { type: "boolean", optional: true },
        "keep-last": number,
        "keep-hourly": number,
        "keep-daily": number,
        "keep-weekly": number,
        "keep-monthly": number,
        "keep-yearly": number,
      },
      show: showPruned,
    },
    export: { refused: stream },
    import: { refused: stream },
    apiinfo: { refused: "there are no storage plugins in Perl here whose version would matter" },
  },
};
