// The typed form of every property string in a VM's configuration. Names are PVE's own; sizes are bytes.

export interface DriveThrottle {
  readonly bps_max_length?: number;
  readonly bps_rd_max_length?: number;
  readonly bps_wr_max_length?: number;
  readonly iops?: number;
  readonly iops_max?: number;
  readonly iops_max_length?: number;
  readonly iops_rd?: number;
  readonly iops_rd_max?: number;
  readonly iops_rd_max_length?: number;
  readonly iops_wr?: number;
  readonly iops_wr_max?: number;
  readonly iops_wr_max_length?: number;
  readonly mbps?: number;
  readonly mbps_max?: number;
  readonly mbps_rd?: number;
  readonly mbps_rd_max?: number;
  readonly mbps_wr?: number;
  readonly mbps_wr_max?: number;
}

/** ide, sata, scsi, virtio, efidisk and tpmstate; each bus knows only some of the options. */
export interface Drive extends DriveThrottle {
  /** Volume id, absolute path, `none` or `cdrom`. */
  readonly file: string;
  readonly aio?: "native" | "threads" | "io_uring";
  readonly backup?: boolean;
  readonly cache?: "none" | "writethrough" | "writeback" | "unsafe" | "directsync";
  readonly detect_zeroes?: boolean;
  readonly discard?: "ignore" | "on";
  readonly efitype?: "2m" | "4m";
  readonly format?: string;
  readonly "import-from"?: string;
  readonly iothread?: boolean;
  readonly media?: "cdrom" | "disk";
  readonly model?: string;
  readonly "ms-cert"?: string;
  readonly "pre-enrolled-keys"?: boolean;
  readonly product?: string;
  readonly queues?: number;
  readonly replicate?: boolean;
  readonly rerror?: "ignore" | "report" | "stop";
  readonly ro?: boolean;
  readonly scsiblock?: boolean;
  readonly serial?: string;
  readonly shared?: boolean;
  readonly size?: number;
  readonly snapshot?: boolean;
  readonly ssd?: boolean;
  readonly vendor?: string;
  readonly version?: "v1.2" | "v2.0";
  readonly werror?: "enospc" | "ignore" | "report" | "stop";
  readonly wwn?: string;
}

export interface NetDevice {
  readonly model: string;
  readonly macaddr?: string;
  readonly bridge?: string;
  readonly firewall?: boolean;
  /** Let the guest leave the sums of tunnelled packets to the host. */
  readonly "host-tunnel"?: boolean;
  readonly link_down?: boolean;
  readonly mtu?: number;
  readonly queues?: number;
  /** Megabytes per second. */
  readonly rate?: number;
  readonly tag?: number;
  readonly trunks?: string;
}

export interface AgentOptions {
  readonly enabled: boolean;
  readonly "freeze-fs"?: boolean;
  readonly fstrim_cloned_disks?: boolean;
  readonly type?: "virtio" | "isa";
}

export interface AmdSev {
  readonly type: "std" | "es" | "snp";
  readonly "allow-smt"?: boolean;
  readonly "kernel-hashes"?: boolean;
  readonly "no-debug"?: boolean;
  readonly "no-key-sharing"?: boolean;
}

export interface IntelTdx {
  readonly type: "tdx";
  readonly attestation: boolean;
  readonly "vsock-cid"?: number;
  readonly "vsock-port"?: number;
}

export interface AudioDevice {
  readonly device: "ich9-intel-hda" | "intel-hda" | "AC97";
  readonly driver?: "spice" | "none";
}

export interface BootOrder {
  readonly legacy?: string;
  /** Device keys separated by `;`. */
  readonly order?: string;
}

export interface CloudinitFiles {
  readonly meta?: string;
  readonly network?: string;
  readonly user?: string;
  readonly vendor?: string;
}

export interface CpuOptions {
  readonly cputype?: string;
  readonly flags?: string;
  readonly "guest-phys-bits"?: number;
  readonly hidden?: boolean;
  readonly "hv-vendor-id"?: string;
  readonly level?: number;
  readonly "phys-bits"?: string;
  readonly "reported-model"?: string;
}

export interface HostPci {
  readonly host?: string;
  readonly mapping?: string;
  readonly "device-id"?: string;
  readonly driver?: "vfio" | "keep";
  readonly "legacy-igd"?: boolean;
  readonly mdev?: string;
  readonly pcie?: boolean;
  readonly rombar?: boolean;
  readonly romfile?: string;
  readonly "sub-device-id"?: string;
  readonly "sub-vendor-id"?: string;
  readonly "vendor-id"?: string;
  readonly "x-vga"?: boolean;
}

export interface IpConfig {
  readonly gw?: string;
  readonly gw6?: string;
  readonly ip?: string;
  readonly ip6?: string;
}

export interface SharedMemory {
  readonly name?: string;
  /** MiB. */
  readonly size: number;
}

export interface MachineOptions {
  readonly type?: string;
  readonly "aw-bits"?: number;
  readonly "enable-s3"?: boolean;
  readonly "enable-s4"?: boolean;
  readonly viommu?: "intel" | "virtio";
}

export interface MemoryOptions {
  /** MiB. */
  readonly current: number;
}

export interface CreationMeta {
  readonly "creation-qemu"?: string;
  /** Unix seconds. */
  readonly ctime?: number;
}

export interface NumaNode {
  readonly cpus: string;
  readonly hostnodes?: string;
  /** MiB. */
  readonly memory?: number;
  readonly policy?: "preferred" | "bind" | "interleave";
}

export interface RngDevice {
  readonly source: string;
  readonly max_bytes?: number;
  readonly period?: number;
}

export interface Smbios1 {
  readonly base64?: boolean;
  readonly family?: string;
  readonly manufacturer?: string;
  readonly product?: string;
  readonly serial?: string;
  readonly sku?: string;
  readonly uuid?: string;
  readonly version?: string;
}

export interface SpiceEnhancements {
  readonly foldersharing?: boolean;
  readonly videostreaming?: "off" | "all" | "filter";
}

export interface UnusedVolume {
  readonly file: string;
}

export interface UsbDevice {
  readonly host?: string;
  readonly mapping?: string;
  readonly usb3?: boolean;
}

export interface VgaOptions {
  readonly type?: string;
  readonly clipboard?: "vnc";
  /** MiB. */
  readonly memory?: number;
}

export interface VirtioFs {
  readonly dirid: string;
  readonly cache?: "auto" | "always" | "metadata" | "never";
  readonly "direct-io"?: boolean;
  readonly "expose-acl"?: boolean;
  readonly "expose-xattr"?: boolean;
}

export interface WatchdogDevice {
  readonly model?: "i6300esb" | "ib700";
  readonly action?: "reset" | "shutdown" | "poweroff" | "pause" | "debug" | "none";
}

/** Kind of key (`net` for net0 … net31) -> the typed form of its value. */
export interface VmPropertyTypes {
  agent: AgentOptions;
  "amd-sev": AmdSev;
  audio0: AudioDevice;
  boot: BootOrder;
  cicustom: CloudinitFiles;
  cpu: CpuOptions;
  efidisk0: Drive;
  hostpci: HostPci;
  ide: Drive;
  "intel-tdx": IntelTdx;
  ipconfig: IpConfig;
  ivshmem: SharedMemory;
  machine: MachineOptions;
  memory: MemoryOptions;
  meta: CreationMeta;
  net: NetDevice;
  /** numa0 … numa7; plain `numa` is a boolean key. */
  numaN: NumaNode;
  rng0: RngDevice;
  runningmachine: MachineOptions;
  sata: Drive;
  scsi: Drive;
  smbios1: Smbios1;
  spice_enhancements: SpiceEnhancements;
  tpmstate0: Drive;
  unused: UnusedVolume;
  usb: UsbDevice;
  vga: VgaOptions;
  virtio: Drive;
  virtiofs: VirtioFs;
  watchdog: WatchdogDevice;
}
