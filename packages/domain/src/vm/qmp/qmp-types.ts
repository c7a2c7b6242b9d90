// What QEMU's commands take and give, in QEMU's own words; fields we never read are left out.

export type JsonRecord = Readonly<Record<string, unknown>>;

export type QemuRunState =
  | "debug"
  | "inmigrate"
  | "internal-error"
  | "io-error"
  | "paused"
  | "postmigrate"
  | "prelaunch"
  | "finish-migrate"
  | "restore-vm"
  | "running"
  | "save-vm"
  | "shutdown"
  | "suspended"
  | "watchdog"
  | "guest-panicked"
  | "colo";

export interface StatusInfo {
  readonly status: QemuRunState;
  readonly running: boolean;
}

/** Operations and bytes in a second, of reads, writes and both. */
export interface IoLimits {
  readonly bps: number;
  readonly bps_rd: number;
  readonly bps_wr: number;
  readonly iops: number;
  readonly iops_rd: number;
  readonly iops_wr: number;
}

export interface BlockDeviceInfo extends IoLimits {
  readonly file: string;
  readonly "node-name"?: string;
  readonly ro: boolean;
  readonly drv: string;
  readonly backing_file?: string;
  readonly image: ImageInfo;
  readonly "dirty-bitmaps"?: readonly DirtyBitmapInfo[];
}

export interface ImageInfo {
  readonly filename: string;
  readonly format: string;
  readonly "virtual-size": number;
  readonly "actual-size"?: number;
  readonly "backing-filename"?: string;
  readonly "full-backing-filename"?: string;
  readonly "backing-image"?: ImageInfo;
}

export interface DirtyBitmapInfo {
  readonly name?: string;
  readonly count: number;
  readonly granularity: number;
  readonly recording: boolean;
  readonly busy: boolean;
  readonly persistent: boolean;
  readonly inconsistent?: boolean;
}

export interface BlockInfo {
  readonly device: string;
  readonly qdev?: string;
  readonly removable: boolean;
  readonly locked: boolean;
  readonly tray_open?: boolean;
  readonly inserted?: BlockDeviceInfo;
  readonly "io-status"?: "ok" | "failed" | "nospace";
}

export interface BlockStats {
  readonly device?: string;
  readonly qdev?: string;
  readonly "node-name"?: string;
  readonly stats: {
    readonly rd_bytes: number;
    readonly wr_bytes: number;
    readonly rd_operations: number;
    readonly wr_operations: number;
    readonly flush_operations: number;
    readonly rd_total_time_ns: number;
    readonly wr_total_time_ns: number;
    readonly wr_highest_offset: number;
    readonly failed_rd_operations: number;
    readonly failed_wr_operations: number;
  } & JsonRecord;
  readonly parent?: BlockStats;
  readonly backing?: BlockStats;
}

export type JobStatus =
  | "undefined"
  | "created"
  | "running"
  | "paused"
  | "ready"
  | "standby"
  | "waiting"
  | "pending"
  | "aborting"
  | "concluded"
  | "null";

export interface JobInfo {
  readonly id: string;
  readonly type: string;
  readonly status: JobStatus;
  readonly "current-progress": number;
  readonly "total-progress": number;
  readonly error?: string;
}

export interface BlockJobInfo {
  readonly device: string;
  readonly type: string;
  readonly len: number;
  readonly offset: number;
  readonly busy: boolean;
  readonly paused: boolean;
  readonly speed: number;
  readonly ready: boolean;
  readonly status: JobStatus;
  readonly error?: string;
}

export interface MigrationInfo {
  readonly status?:
    | "none"
    | "setup"
    | "cancelling"
    | "cancelled"
    | "active"
    | "postcopy-active"
    | "postcopy-paused"
    | "postcopy-recover"
    | "completed"
    | "failed"
    | "colo"
    | "pre-switchover"
    | "device"
    | "wait-unplug";
  readonly ram?: {
    readonly transferred: number;
    readonly remaining: number;
    readonly total: number;
    readonly mbps: number;
    readonly "dirty-pages-rate": number;
  } & JsonRecord;
  readonly "cpu-throttle-percentage"?: number;
  readonly "total-time"?: number;
  readonly "expected-downtime"?: number;
  readonly downtime?: number;
  readonly "error-desc"?: string;
}

export interface CpuInfoFast {
  readonly "cpu-index": number;
  readonly "qom-path": string;
  readonly "thread-id": number;
  readonly props?: JsonRecord;
  readonly target: string;
}

export interface HotpluggableCpu {
  readonly type: string;
  readonly "vcpus-count": number;
  readonly props: JsonRecord;
  readonly "qom-path"?: string;
}

export interface MachineInfo {
  readonly name: string;
  readonly alias?: string;
  readonly "is-default"?: boolean;
  readonly "cpu-max": number;
  readonly "hotpluggable-cpus": boolean;
  readonly deprecated: boolean;
}

export interface TransactionAction {
  readonly type: string;
  readonly data: JsonRecord;
}
