// What a platform must be able to do for machines to be made on it. Nothing here knows what runs in the machines.

export interface ObservedNode {
  readonly name: string;
  readonly isOnline: boolean;
  readonly cpus: number;
  readonly memoryMiB: number;
  readonly memoryUsedMiB: number;
  readonly storages: readonly ObservedStorage[];
  readonly bridges: readonly { readonly name: string; readonly mtu: number | undefined }[];
}

export interface ObservedStorage {
  readonly name: string;
  readonly isActive: boolean;
  readonly contents: readonly string[];
  readonly freeGiB: number;
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

export interface Driver {
  /** The provider's name in the file. */
  readonly name: string;
  /** Only the nodes named are looked at closely. */
  observe(nodes: readonly string[]): Promise<Observation>;
  guestConfig(place: GuestPlace): Promise<GuestConfig>;
  /** Names of volumes of this kind: "local:import/x.qcow2". */
  volumes(host: string, storage: string, content: string): Promise<readonly string[]>;
  /** undefined: whoever asks may do everything. */
  privileges(path: string): Promise<ReadonlySet<string> | undefined>;
  createGuest(place: GuestPlace, config: GuestConfig): Promise<void>;
  changeGuest(place: GuestPlace, config: GuestConfig): Promise<void>;
  resizeDisk(place: GuestPlace, disk: string, gib: number): Promise<void>;
  start(place: GuestPlace): Promise<void>;
  /** At once, as pulling the plug does. */
  stop(place: GuestPlace): Promise<void>;
  /** Its disks too. */
  deleteGuest(place: GuestPlace): Promise<void>;
  close(): void;
}
