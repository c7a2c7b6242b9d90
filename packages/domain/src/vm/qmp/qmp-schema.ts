// The QMP commands we use, with their arguments and results. Names and fields are QEMU's own (qapi/*.json, 7.2 and
// later); fields we never read are left out. Block node options differ by driver and stay open records.

import type {
  JsonRecord,
  StatusInfo,
  BlockDeviceInfo,
  BlockInfo,
  BlockStats,
  IoLimits,
  JobInfo,
  BlockJobInfo,
  MigrationInfo,
  CpuInfoFast,
  HotpluggableCpu,
  MachineInfo,
  TransactionAction,
} from "./qmp-types.ts";

type SyncMode = "top" | "full" | "none" | "incremental" | "bitmap";
type Empty = Readonly<Record<string, never>>;
interface Bitmap {
  readonly node: string;
  readonly name: string;
}
interface DeviceOrId {
  readonly id?: string;
  readonly device?: string;
}

/** name -> [arguments, result] */
export interface QmpCommands {
  qmp_capabilities: [undefined, Empty];
  "query-version": [
    undefined,
    { readonly qemu: { major: number; minor: number; micro: number }; readonly package: string },
  ];
  "query-commands": [undefined, readonly { readonly name: string }[]];
  "query-qmp-schema": [undefined, readonly JsonRecord[]];
  "query-machines": [undefined, readonly MachineInfo[]];
  "query-cpu-definitions": [
    undefined,
    readonly { readonly name: string; readonly "unavailable-features"?: readonly string[] }[],
  ];
  "query-kvm": [undefined, { readonly enabled: boolean; readonly present: boolean }];
  "query-uuid": [undefined, { readonly UUID: string }];
  "query-name": [undefined, { readonly name?: string }];
  "query-status": [undefined, StatusInfo];
  "query-block": [undefined, readonly BlockInfo[]];
  "query-blockstats": [{ readonly "query-nodes"?: boolean }, readonly BlockStats[]];
  "query-named-block-nodes": [{ readonly flat?: boolean }, readonly BlockDeviceInfo[]];
  "query-cpus-fast": [undefined, readonly CpuInfoFast[]];
  "query-hotpluggable-cpus": [undefined, readonly HotpluggableCpu[]];
  "query-memory-devices": [undefined, readonly { readonly type: string; readonly data: JsonRecord }[]];
  "query-balloon": [undefined, { readonly actual: number }];
  balloon: [{ readonly value: number }, Empty];
  stop: [undefined, Empty];
  cont: [undefined, Empty];
  quit: [undefined, Empty];
  system_powerdown: [undefined, Empty];
  system_reset: [undefined, Empty];
  system_wakeup: [undefined, Empty];
  "watchdog-set-action": [{ readonly action: string }, Empty];
  "blockdev-add": [JsonRecord & { readonly driver: string; readonly "node-name": string }, Empty];
  "blockdev-del": [{ readonly "node-name": string }, Empty];
  "blockdev-reopen": [{ readonly options: readonly JsonRecord[] }, Empty];
  block_resize: [{ readonly "node-name"?: string; readonly device?: string; readonly size: number }, Empty];
  block_set_io_throttle: [IoLimits & { readonly id?: string } & JsonRecord, Empty];
  "blockdev-open-tray": [DeviceOrId & { readonly force?: boolean }, Empty];
  "blockdev-close-tray": [DeviceOrId, Empty];
  "blockdev-remove-medium": [{ readonly id: string }, Empty];
  "blockdev-insert-medium": [{ readonly id: string; readonly "node-name": string }, Empty];
  "blockdev-mirror": [
    {
      readonly "job-id": string;
      readonly device: string;
      readonly target: string;
      readonly sync: SyncMode;
      readonly "auto-dismiss"?: boolean;
      readonly "auto-finalize"?: boolean;
      readonly "copy-mode"?: "background" | "write-blocking";
      readonly replaces?: string;
      readonly speed?: number;
      readonly "on-source-error"?: string;
      readonly "on-target-error"?: string;
    },
    Empty,
  ];
  "blockdev-backup": [
    {
      readonly "job-id": string;
      readonly device: string;
      readonly target: string;
      readonly sync: SyncMode;
      readonly bitmap?: string;
      readonly "bitmap-mode"?: "on-success" | "never" | "always";
      readonly speed?: number;
      readonly "auto-dismiss"?: boolean;
      readonly "auto-finalize"?: boolean;
    } & JsonRecord,
    Empty,
  ];
  "block-commit": [
    {
      readonly "job-id": string;
      readonly device: string;
      readonly "top-node"?: string;
      readonly "base-node"?: string;
      readonly "auto-dismiss"?: boolean;
    } & JsonRecord,
    Empty,
  ];
  "block-stream": [
    {
      readonly "job-id": string;
      readonly device: string;
      readonly "base-node"?: string;
      readonly "auto-dismiss"?: boolean;
    } & JsonRecord,
    Empty,
  ];
  "block-job-set-speed": [{ readonly device: string; readonly speed: number }, Empty];
  "block-job-cancel": [{ readonly device: string; readonly force?: boolean }, Empty];
  "query-block-jobs": [undefined, readonly BlockJobInfo[]];
  "query-jobs": [undefined, readonly JobInfo[]];
  "job-pause": [{ readonly id: string }, Empty];
  "job-resume": [{ readonly id: string }, Empty];
  "job-cancel": [{ readonly id: string }, Empty];
  "job-complete": [{ readonly id: string }, Empty];
  "job-finalize": [{ readonly id: string }, Empty];
  "job-dismiss": [{ readonly id: string }, Empty];
  transaction: [
    { readonly actions: readonly TransactionAction[]; readonly properties?: { "completion-mode"?: string } },
    Empty,
  ];
  "blockdev-snapshot": [{ readonly node: string; readonly overlay: string }, Empty];
  "snapshot-save": [JsonRecord, Empty];
  /** `device` is a root node or a device of the old kind. */
  "blockdev-snapshot-internal-sync": [{ readonly device: string; readonly name: string }, Empty];
  "blockdev-snapshot-delete-internal-sync": [{ readonly device: string; readonly name: string }, JsonRecord];
  "block-dirty-bitmap-add": [
    Bitmap & {
      readonly granularity?: number;
      readonly persistent?: boolean;
      readonly disabled?: boolean;
    },
    Empty,
  ];
  "block-dirty-bitmap-remove": [Bitmap, Empty];
  "block-dirty-bitmap-clear": [Bitmap, Empty];
  "block-dirty-bitmap-enable": [Bitmap, Empty];
  "block-dirty-bitmap-disable": [Bitmap, Empty];
  "block-dirty-bitmap-merge": [
    { readonly node: string; readonly target: string; readonly bitmaps: readonly (string | Bitmap)[] },
    Empty,
  ];
  "nbd-server-start": [
    { readonly addr: JsonRecord; readonly "max-connections"?: number } & JsonRecord,
    Empty,
  ];
  "nbd-server-add": [
    {
      readonly device: string;
      readonly name?: string;
      readonly writable?: boolean;
      readonly bitmap?: string;
    },
    Empty,
  ];
  "nbd-server-remove": [{ readonly name: string; readonly mode?: "safe" | "hard" }, Empty];
  "nbd-server-stop": [undefined, Empty];
  "block-export-add": [JsonRecord & { readonly type: string; readonly id: string }, Empty];
  "block-export-del": [{ readonly id: string; readonly mode?: "safe" | "hard" }, Empty];
  device_add: [JsonRecord & { readonly driver: string; readonly id: string }, Empty];
  device_del: [{ readonly id: string }, Empty];
  "object-add": [JsonRecord & { readonly "qom-type": string; readonly id: string }, Empty];
  "object-del": [{ readonly id: string }, Empty];
  netdev_add: [JsonRecord & { readonly type: string; readonly id: string }, Empty];
  netdev_del: [{ readonly id: string }, Empty];
  set_link: [{ readonly name: string; readonly up: boolean }, Empty];
  "chardev-add": [{ readonly id: string; readonly backend: JsonRecord }, JsonRecord];
  "chardev-change": [{ readonly id: string; readonly backend: JsonRecord }, JsonRecord];
  "chardev-remove": [{ readonly id: string }, Empty];
  "query-chardev": [undefined, readonly { readonly label: string; readonly filename: string }[]];
  migrate: [{ readonly uri: string; readonly blk?: boolean; readonly inc?: boolean }, Empty];
  "migrate-incoming": [{ readonly uri: string }, Empty];
  "migrate-set-parameters": [JsonRecord, Empty];
  "migrate-set-capabilities": [
    { readonly capabilities: readonly { readonly capability: string; readonly state: boolean }[] },
    Empty,
  ];
  migrate_cancel: [undefined, Empty];
  "migrate-continue": [{ readonly state: string }, Empty];
  "migrate-start-postcopy": [undefined, Empty];
  "query-migrate": [undefined, MigrationInfo];
  "query-migrate-parameters": [undefined, JsonRecord];
  "query-migrate-capabilities": [
    undefined,
    readonly { readonly capability: string; readonly state: boolean }[],
  ];
  "human-monitor-command": [{ readonly "command-line": string }, string];
  "send-key": [
    {
      readonly keys: readonly { readonly type: "qcode" | "number"; readonly data: string | number }[];
      readonly "hold-time"?: number;
    },
    Empty,
  ];
  screendump: [
    {
      readonly filename: string;
      readonly format?: "ppm" | "png";
      readonly device?: string;
      readonly head?: number;
    },
    Empty,
  ];
  set_password: [JsonRecord & { readonly protocol: "vnc" | "spice"; readonly password: string }, Empty];
  expire_password: [{ readonly protocol: "vnc" | "spice"; readonly time: string }, Empty];
  "query-vnc": [undefined, JsonRecord];
  "query-spice": [undefined, JsonRecord];
  "query-pci": [undefined, readonly JsonRecord[]];
  getfd: [{ readonly fdname: string }, Empty];
  closefd: [{ readonly fdname: string }, Empty];
  "add-fd": [
    { readonly "fdset-id"?: number; readonly opaque?: string },
    { readonly "fdset-id": number; readonly fd: number },
  ];
  "remove-fd": [{ readonly "fdset-id": number; readonly fd?: number }, Empty];
  "query-fdsets": [undefined, readonly JsonRecord[]];
  "qom-get": [{ readonly path: string; readonly property: string }, unknown];
  "qom-set": [{ readonly path: string; readonly property: string; readonly value: unknown }, Empty];
  "qom-list": [{ readonly path: string }, readonly { readonly name: string; readonly type: string }[]];
  "qom-list-types": [
    { readonly implements?: string; readonly abstract?: boolean },
    readonly { readonly name: string; readonly parent?: string }[],
  ];
  "device-list-properties": [
    { readonly typename: string },
    readonly { readonly name: string; readonly type: string }[],
  ];
}

export type QmpCommandName = keyof QmpCommands;
export type QmpArguments<K extends QmpCommandName> = QmpCommands[K][0];
export type QmpResult<K extends QmpCommandName> = QmpCommands[K][1];
