// What the storage operations need from this host besides the plugins.

export type ChecksumAlgorithm = "md5" | "sha1" | "sha224" | "sha256" | "sha384" | "sha512";

export interface UrlFacts {
  readonly filename?: string;
  readonly size?: number;
  readonly mimetype?: string;
}

export interface FetchOptions {
  readonly verifyCertificates: boolean;
  readonly signal: AbortSignal;
}

/** Files of a storage that are no disks: uploaded, downloaded, checked, put in place. */
export interface StorageFiles {
  exists(path: string): Promise<boolean>;
  size(path: string): Promise<number>;
  /** Deletes; a file that is not there is no error. */
  remove(path: string): Promise<void>;
  makeDirectory(path: string): Promise<void>;
  /** Appears under its new name complete or not at all; both may lie on different file systems. */
  install(from: string, to: string, signal: AbortSignal): Promise<void>;
  copy(from: string, to: string, work: FileWork): Promise<void>;
  hash(path: string, algorithm: ChecksumAlgorithm, signal: AbortSignal): Promise<string>;
  /** Replaces the file by its decompressed content. */
  decompress(path: string, method: string, signal: AbortSignal): Promise<void>;
  /** The text of an OVF file, or of the one inside an OVA. */
  ovfText(path: string, name: string): Promise<string>;
  /** Refuses disk images that are not what they seem; other files pass. */
  inspect(path: string, name: string, signal: AbortSignal): Promise<void>;
}

export interface FileWork {
  readonly signal: AbortSignal;
  readonly progress: (fraction: number) => void;
}

export interface UrlFetcher {
  facts(url: string, options: FetchOptions): Promise<UrlFacts>;
  download(
    url: string,
    path: string,
    options: FetchOptions & { progress: (fraction: number) => void },
  ): Promise<number>;
}

/** Registries of container images. */
export interface OciRegistry {
  /** Fetches an image with its tag into one archive file. */
  pull(
    reference: string,
    path: string,
    work: { readonly signal: AbortSignal; readonly say: (line: string) => void },
  ): Promise<void>;
  /** Removes what a pull left at that path and beside it. */
  discard(path: string): Promise<void>;
  tags(reference: string, signal: AbortSignal): Promise<readonly string[]>;
}
