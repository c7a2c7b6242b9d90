// One way to call the PVE API; REST and pvesh take the same paths and parameters.

export type Verb = "GET" | "POST" | "PUT" | "DELETE";
export type CallValues = Readonly<Record<string, string | number | boolean>>;

export interface UploadValues {
  readonly content: string;
  readonly filename: string;
  readonly checksum: string;
  readonly "checksum-algorithm": string;
}

export interface PlatformCalls {
  /** Whoever calls may do everything: there is nothing to check. */
  readonly isRoot: boolean;
  read(path: string, values?: CallValues): Promise<unknown>;
  /** Resolves when the work is done; fails when its task does. */
  work(verb: Exclude<Verb, "GET">, path: string, values?: CallValues): Promise<void>;
  /** A file of this machine as a volume of a storage. Resolves when it is there. */
  upload(path: string, values: UploadValues, file: string): Promise<void>;
  /** What it makes answers at once, with what nobody is told again. */
  make(path: string, values?: CallValues): Promise<unknown>;
  /** Joins the serial line of a guest ("/nodes/n1/qemu/100"); what comes back leaves it. Not everybody can. */
  listen?(guest: string, heard: (bytes: Uint8Array) => void): Promise<() => void>;
  close(): void;
}
