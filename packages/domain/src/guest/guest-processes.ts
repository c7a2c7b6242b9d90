// Processes that outlive the agent: guests of any kind, and their helpers (swtpm, virtiofsd). Each has a supervisor of
// its own. What a kind of guest has beside that is said by its own port, as in vm/qemu-processes.ts.

/** A file or device the guest may open. Nothing else of the host is there for it. */
export interface GuestFile {
  readonly path: string;
  /** Where it is for the guest; absent: at its path. */
  readonly as?: string;
  readonly access: "ro" | "rw";
  /**
   * The file belongs to this guest alone: it is given to the guest's uid. Default: true for "rw" and for disks of the
   * host. A shared "ro" file (ISO image, base of linked clones) is made readable for all guests instead.
   */
  readonly owned?: boolean;
  /** With what is in it: a folder that may have come from another node. */
  readonly deep?: boolean;
  /** A storage has it: when it is shared, nobody but guests needs to read it. */
  readonly ofStorage?: boolean;
  /** A file or device of the host that no storage has: it is given back as it was when the guest has gone. */
  readonly ofHost?: boolean;
}

export interface CallOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface GuestLimits {
  /** As PVE's cpuunits: cpu.shares (cgroup v1) or cpu.weight (v2); 0 = what everybody has. */
  readonly cpuUnits?: number;
  /** In CPUs; 0 = no limit. */
  readonly cpuLimit?: number;
  /** 0 = no limit. */
  readonly memoryMaxBytes?: number;
  readonly ioWeight?: number;
  readonly io?: readonly {
    /** "major:minor" */
    readonly device: string;
    readonly readBytesPerSecond?: number;
    readonly writeBytesPerSecond?: number;
  }[];
}

/** The most a guest may take, whatever is in it. */
export interface GuestBounds {
  readonly memoryBytes?: number;
  /** Processes and threads. */
  readonly tasks?: number;
  readonly cpus?: number;
}

export interface GuestUsage {
  /** CPU time used since the start. */
  readonly cpuNs: number;
  /** With page cache. */
  readonly memoryBytes: number;
  /** Without. */
  readonly memoryAnonBytes: number;
}

/** Numbers for descriptors that a guest is given: below are those of its kind, above those found in its arguments. */
export const FREE_DESCRIPTORS = { first: 32, end: 480 } as const;

export interface GuestStart {
  /** Folder, cgroup and log go by it: "100", "100-tpm". */
  readonly id: string;
  /** Whom errors name: "VM 100". */
  readonly label: string;
  readonly program: string;
  /** Without argv[0]. */
  readonly args: readonly string[];
  readonly files: readonly GuestFile[];
  /** Of `files`: the folder that it is started in; absent: `/`. */
  readonly workFolder?: string;
  /**
   * Listening unix sockets handed over as descriptors: the guest serves them but cannot replace them. Character
   * devices in the arguments whose path is `socketPath(name)` are handed over in this way without being listed.
   */
  readonly sockets?: readonly { readonly name: string; readonly fd: number }[];
  /** Put into the guest's io folder before it starts, gone with it: variable stores of firmware, for one. */
  readonly ioFiles?: readonly (
    | { readonly name: string; readonly copyOf: string }
    | { readonly name: string; readonly content: Uint8Array }
  )[];
  /**
   * It runs in the host's network namespace. Everybody else gets an empty one and reaches no service of the host: taps
   * are handed over, sockets are files.
   */
  readonly hostNetwork?: boolean;
  /** File of a network namespace that it runs in, in place of an empty one. */
  readonly network?: string;
  /** With the host's network: it is one of the users that reach other machines and not this one. */
  readonly outwardOnly?: boolean;
  readonly needsKvm?: boolean;
  /**
   * It keeps root's rights and gets an empty /proc to mount its own on: for programs of ours that act for many users
   * and confine themselves further. Never for QEMU.
   */
  readonly asRoot?: boolean;
  /**
   * It is root with the host's files and processes; only its network and cgroup are as said. For the programs of workers,
   * which make the confinement of others. Never for anything that a guest may speak to.
   */
  readonly asHost?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly limits?: GuestLimits;
  readonly bounds?: GuestBounds;
  /** "unlimited" or bytes; for hugepages, passthrough and io_uring. */
  readonly memlock?: string;
  /** CPU list, "0-3,8". */
  readonly affinity?: string;
  readonly oomScoreAdj?: number;
  /** What the caller wants to find again when the guest is adopted. */
  readonly note?: unknown;
}

/**
 * shutdown: the guest switched itself off. stopped: we ended it. killed: somebody else did (signal, out of memory).
 * crashed: it failed by itself. hostReboot: the machine went down with it. unknown: nobody was there to see.
 */
export type GuestExitCause = "shutdown" | "stopped" | "killed" | "crashed" | "hostReboot" | "unknown";

export interface GuestExit {
  readonly cause: GuestExitCause;
  readonly exitCode?: number;
  readonly signal?: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Its own reason ("guest-shutdown", "watchdog", ...), where it was heard. */
  readonly reason?: string;
  readonly outOfMemory: boolean;
  /** The end of what the program printed. */
  readonly lastWords: string;
}

export interface GuestPlace {
  /** A socket the guest serves and cannot replace: serial ports, guest agent. */
  socketPath(name: string): string;
  /** The folder the guest may write into, same path inside and outside: VNC socket, screenshots. */
  readonly ioFolder: string;
}

export interface GuestProcess {
  readonly id: string;
  readonly label: string;
  readonly pid: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** undefined = ours, not confined. */
  readonly uid: number | undefined;
  readonly note: unknown;
  /** Resolves when it has ended; never rejects. */
  readonly exited: Promise<GuestExit>;
  readonly hasExited: boolean;
  /** Path of one of `sockets`. What the guest makes itself is in `ioFolder`: connect with the guest's uid as owner. */
  socketPath(name: string): string;
  /** The folder the guest may write into, same path inside and outside. */
  readonly ioFolder: string;
  /** Makes a file reachable for the running guest. */
  allowFile(file: GuestFile): Promise<void>;
  /** Takes it away. */
  forbidFile(path: string): Promise<void>;
  usage(): GuestUsage;
  /** Percent of the last ten seconds spent waiting: `cpusome`, `iofull`, ...; empty where nobody counts it. */
  pressure(): Readonly<Record<string, number>>;
  setLimits(limits: GuestLimits): void;
  /** Makes room for what it is about to get; never takes any away. Without effect where a guest has no cgroup. */
  raiseBounds(bounds: GuestBounds): void;
  /** Asked to end as its kind is asked, then SIGKILL; resolves when it has ended. */
  stop(options?: CallOptions): Promise<GuestExit>;
  /** SIGKILL now. */
  kill(): Promise<GuestExit>;
}

export interface EndedGuest {
  readonly id: string;
  readonly label: string;
  readonly note: unknown;
  readonly exit: GuestExit;
}

export interface Adoption {
  readonly running: readonly GuestProcess[];
  /** Ended while nobody looked. Kept until `forget`. */
  readonly ended: readonly EndedGuest[];
  /** Alive, but cannot be spoken to; `adopt` again later. */
  readonly unreachable: readonly { readonly id: string; readonly label: string; readonly error: Error }[];
}

export interface Confinement {
  readonly level: "full" | "partial" | "none";
  /** What holds or why not; shown in node status. */
  readonly detail: string;
}

export interface GuestProcesses {
  readonly confinement: Confinement;
  /** Rejects with guest.start_failed and the program's own words; then nothing of it is left. */
  start(start: GuestStart, options?: CallOptions): Promise<GuestProcess>;
  /** Finds everything that runs, once at agent start and again for what was unreachable. */
  adopt(): Promise<Adoption>;
  /** Where a guest's sockets and its own folder are, before and after it is started. */
  placeOf(id: string): GuestPlace;
  /** The user that its process has, or will have when it is started now. undefined = ours. */
  uidOf(id: string): number | undefined;
  get(id: string): GuestProcess | undefined;
  list(): readonly GuestProcess[];
  /** Every exit of a started or adopted guest, once. Returns the function that stops listening. */
  onExit(listener: (ended: EndedGuest) => void): () => void;
  /** Removes what is left of an ended guest, once its end is recorded elsewhere. */
  forget(id: string): Promise<void>;
  /** Once every guest is stopped for good: leaves no empty cgroup behind. */
  sweep(): void;
  /** Stops looking after the guests, which run on. */
  close(): void;
}
