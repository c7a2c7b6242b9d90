// A component is a set of programs that virtual clusters are made of, in one version. What it consists of, and the ways in
// which a node can come by it, are data.

export type Architecture = "amd64" | "arm64";

/** How programs came to a node; "import" = somebody brought them. */
export type ComponentOrigin = "download" | "debian" | "go" | "import";

/** Programs that their publisher offers as they are, each with its checksum. */
export interface PlainDownload {
  readonly by: "download";
  readonly files: readonly {
    readonly program: string;
    readonly url: string;
    /** The publisher's own list of checksums. */
    readonly checksums: string;
  }[];
}

/** Programs in one archive with its checksum. */
export interface ArchiveDownload {
  readonly by: "download";
  readonly archive: { readonly url: string; readonly checksums: string };
  /** Where each program is in the archive. */
  readonly programs: Readonly<Record<string, string>>;
}

/** Programs of Debian packages: unpacked, not installed. apt checks signatures. */
export interface DebianSource {
  readonly by: "debian";
  readonly packages: readonly string[];
  /** Where each program is in the packages. */
  readonly programs: Readonly<Record<string, string>>;
}

/** Built from a Go module, which the Go module proxy has and Go's checksum database vouches for. */
export interface GoSource {
  readonly by: "go";
  readonly module: string;
  readonly version: string;
  /** Import path of each program. */
  readonly programs: Readonly<Record<string, string>>;
  /** The programs are the tests of those packages. */
  readonly areTests?: true;
  /**
   * Its go.mod replaces other modules by folders of its own repository, which no module has: each is replaced by its
   * published module of this version.
   */
  readonly stagingVersion?: string;
  /** Its go.mod replaces modules by forks, or excludes some, without which it is not what its publisher builds. */
  readonly hasForks?: true;
  /** Variables that tell the program its version. */
  readonly stamps?: Readonly<Record<string, string>>;
  /** What it took on two cores with nothing cached; absent: nobody has measured it. */
  readonly minutes?: number;
}

export type ComponentSource = PlainDownload | ArchiveDownload | DebianSource | GoSource;

export interface ComponentRelease {
  readonly version: string;
  /** In the order in which they are tried. */
  readonly sources: (architecture: Architecture) => readonly ComponentSource[];
}

export interface Component {
  readonly name: string;
  readonly about: string;
  readonly programs: readonly string[];
  /** Newest first: the first is what is meant where none is said. */
  readonly releases: readonly ComponentRelease[];
  /** How a program says which version it is: one that says another is not taken. */
  readonly proof?: { readonly program: string; readonly args: readonly string[]; readonly pattern: string };
}

export function isComponentVersion(text: string): boolean {
  return /^[0-9A-Za-z][0-9A-Za-z.+-]{0,39}$/.test(text);
}

/** Numbers by value, the rest by letters: 1.9 before 1.10. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(/[.+-]/));
  for (let at = 0; at < Math.max(left?.length ?? 0, right?.length ?? 0); at++) {
    const [one = "", other = ""] = [left?.[at], right?.[at]];
    if (one === other) continue;
    const [x, y] = [Number(one), Number(other)];
    if (one !== "" && other !== "" && Number.isInteger(x) && Number.isInteger(y)) return x - y;
    return one < other ? -1 : 1;
  }
  return 0;
}
