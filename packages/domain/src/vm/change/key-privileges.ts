// Which privilege a change of a configuration key needs, as data. Only root@pam passes without them.

export type KeyPrivilege =
  | { readonly all: readonly string[] }
  | { readonly any: readonly string[] }
  /** The value decides; see change-privileges.ts. */
  | { readonly byValue: "drive" | "serial" | "usb" | "hostpci" }
  | { readonly rootOnly: true };

const OPTIONS: KeyPrivilege = { all: ["VM.Config.Options"] };
const CPU: KeyPrivilege = { all: ["VM.Config.CPU"] };
const MEMORY: KeyPrivilege = { all: ["VM.Config.Memory"] };
const HARDWARE: KeyPrivilege = { all: ["VM.Config.HWType"] };
const DISK: KeyPrivilege = { all: ["VM.Config.Disk"] };
const CLOUDINIT: KeyPrivilege = { any: ["VM.Config.Cloudinit", "VM.Config.Network"] };
const DRIVE: KeyPrivilege = { byValue: "drive" };

/** Kind of key (see keyKind) -> what a change needs. A key without a row is for root only. */
export const keyPrivileges: Readonly<Record<string, KeyPrivilege>> = {
  acpi: HARDWARE,
  agent: OPTIONS,
  "allow-ksm": MEMORY,
  audio0: HARDWARE,
  autostart: OPTIONS,
  balloon: MEMORY,
  bios: OPTIONS,
  boot: DISK,
  bootdisk: DISK,
  cdrom: DRIVE,
  cicustom: CLOUDINIT,
  cipassword: CLOUDINIT,
  citype: CLOUDINIT,
  ciupgrade: CLOUDINIT,
  ciuser: CLOUDINIT,
  cores: CPU,
  cpu: CPU,
  cpulimit: CPU,
  cpuunits: CPU,
  description: OPTIONS,
  efidisk0: DRIVE,
  freeze: { all: ["VM.PowerMgmt"] },
  hostpci: { byValue: "hostpci" },
  hotplug: HARDWARE,
  ide: DRIVE,
  ipconfig: CLOUDINIT,
  keyboard: OPTIONS,
  kvm: HARDWARE,
  localtime: OPTIONS,
  machine: HARDWARE,
  memory: MEMORY,
  migrate_downtime: OPTIONS,
  migrate_speed: OPTIONS,
  name: OPTIONS,
  nameserver: CLOUDINIT,
  net: { all: ["VM.Config.Network"] },
  numa: CPU,
  onboot: OPTIONS,
  ostype: OPTIONS,
  protection: OPTIONS,
  reboot: OPTIONS,
  rng0: HARDWARE,
  sata: DRIVE,
  scsi: DRIVE,
  scsihw: HARDWARE,
  searchdomain: CLOUDINIT,
  serial: { byValue: "serial" },
  shares: MEMORY,
  smbios1: HARDWARE,
  sockets: CPU,
  sshkeys: CLOUDINIT,
  startdate: OPTIONS,
  startup: OPTIONS,
  tablet: HARDWARE,
  tags: OPTIONS,
  tdf: OPTIONS,
  template: OPTIONS,
  tpmstate0: DRIVE,
  unused: DISK,
  usb: { byValue: "usb" },
  vcpus: CPU,
  vga: HARDWARE,
  virtio: DRIVE,
  virtiofs: DISK,
  vmstate: { all: ["VM.Config.Disk", "VM.PowerMgmt"] },
  vmstatestorage: DISK,
  watchdog: HARDWARE,
};
