// What a platform must be able to do for machines to be made on it. Nothing here knows what runs in the machines.

export interface ObservedNode {
  readonly name: string;
  readonly isOnline: boolean;
  readonly cpus: number;
  readonly memoryMiB: number;
  readonly memoryUsedMiB: number;
  readonly storages: readonly ObservedStorage[];
  readonly bridges: readonly ObservedBridge[];
}

export interface ObservedBridge {
  readonly name: string;
  readonly mtu: number | undefined;
  /** Of the cluster's networks (SDN): it lies in a zone. */
  readonly isVnet: boolean;
}

export interface ObservedStorage {
  readonly name: string;
  readonly isActive: boolean;
  readonly contents: readonly string[];
  readonly freeGiB: number;
  /** All nodes see the same volumes. */
  readonly isShared: boolean;
}

export interface ObservedGuest {
  readonly vmid: number;
  readonly name: string;
  readonly host: string;
  readonly isRunning: boolean;
  readonly isTemplate: boolean;
  readonly tags: readonly string[];
  readonly memoryMiB: number;
}

export interface Observation {
  /** "9.0.3" */
  readonly version: string;
  readonly nodes: readonly ObservedNode[];
  readonly guests: readonly ObservedGuest[];
  readonly pools: readonly string[];
}

/** The platform's own keys and values, as it shows them. */
export type GuestConfig = Readonly<Record<string, string>>;

export interface GuestPlace {
  readonly host: string;
  readonly vmid: number;
}

export interface ImageSource {
  readonly name: string;
  /** The kind of volume: "import", "iso". */
  readonly content: string;
  readonly url: string;
  /** SHA-256, in hex; what differs is not kept. */
  readonly sha256?: string;
}

/** An image that is here. */
export interface LocalImage {
  readonly name: string;
  readonly content: string;
  readonly path: string;
  readonly sha256: string;
}

/** An account for something that runs in the machines: a role of its own, a user with it, and a token. */
export interface PlatformAccount {
  /** "talos-prod@pve" */
  readonly user: string;
  readonly token: string;
  readonly role: string;
  readonly privileges: readonly string[];
  /** Where the role is given. */
  readonly paths: readonly string[];
}

export interface CloneRequest {
  readonly name: string;
  readonly description: string;
  /** Else it reads from the template's disks. */
  readonly isFull: boolean;
  readonly pool: string | null;
}

export interface GuestBackup {
  /** "local:backup/vzdump-qemu-3000-2026_01_02-03_04_05.vma.zst" */
  readonly volume: string;
  readonly vmid: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly bytes: number;
}

export interface LinkedClone {
  readonly template: number;
  readonly guest: number;
}

/** What a guest writes on its serial line, from the moment on in which somebody listens. */
export interface GuestConsole {
  /** The last ones, oldest first, without what a terminal would obey. */
  readonly lines: readonly string[];
  close(): void;
}

export interface Driver {
  /** The provider's name in the file. */
  readonly name: string;
  /** Only the nodes named are looked at closely. */
  observe(nodes: readonly string[]): Promise<Observation>;
  guestConfig(place: GuestPlace): Promise<GuestConfig>;
  /** Names of volumes of this kind: "local:import/x.qcow2". */
  volumes(host: string, storage: string, content: string): Promise<readonly string[]>;
  /** Nodes that each mapping of PCI devices has a device on, by its name; those that whoever asks may see. */
  pciMappings(): Promise<ReadonlyMap<string, readonly string[]>>;
  /** The zone of a VNet, and the MTU there; undefined: whoever asks is not told. */
  vnet(name: string): Promise<{ readonly zone: string; readonly mtu: number | undefined } | undefined>;
  /** Of the node that answers, as its cluster knows it; undefined: whoever asks is not told. */
  address(): Promise<string | undefined>;
  /** undefined: whoever asks may do everything. */
  privileges(path: string): Promise<ReadonlySet<string> | undefined>;
  /** The platform fetches it itself, as a volume of this name. */
  downloadImage(host: string, storage: string, image: ImageSource): Promise<void>;
  /** From here, as a volume of this name; what arrives otherwise is not kept. */
  uploadImage(host: string, storage: string, image: LocalImage): Promise<void>;
  createGuest(place: GuestPlace, config: GuestConfig): Promise<void>;
  changeGuest(place: GuestPlace, config: GuestConfig): Promise<void>;
  /** Its disks can only be cloned from then on. */
  makeTemplate(place: GuestPlace): Promise<void>;
  cloneGuest(from: GuestPlace, to: GuestPlace, clone: CloneRequest): Promise<void>;
  /** Which guest's disks in this storage read from which template's. */
  linkedClones(host: string, storage: string): Promise<readonly LinkedClone[]>;
  resizeDisk(place: GuestPlace, disk: string, gib: number): Promise<void>;
  start(place: GuestPlace): Promise<void>;
  /** At once, as pulling the plug does. */
  stop(place: GuestPlace): Promise<void>;
  /** Its disks too. */
  deleteGuest(place: GuestPlace): Promise<void>;
  /** All its disks as they are at one moment, for which its agent freezes file systems where it answers. */
  backupGuest(place: GuestPlace, storage: string, notes: string): Promise<void>;
  /** Oldest first. */
  backups(host: string, storage: string): Promise<readonly GuestBackup[]>;
  /** The settings that are in it. */
  backupConfig(host: string, volume: string): Promise<GuestConfig>;
  /** In the place of what is there, which must be off. */
  restoreGuest(place: GuestPlace, volume: string): Promise<void>;
  deleteVolume(host: string, volume: string): Promise<void>;
  /** undefined: there is no way to hear it from here. One listener at a time hears a guest. */
  listen(place: GuestPlace): Promise<GuestConsole | undefined>;
  /** As it is described, whatever it was before; an older token of this name is worth nothing after. */
  makeAccount(account: PlatformAccount): Promise<{ readonly id: string; readonly secret: string }>;
  close(): void;
}
