// What preflight asks the network itself, and not the platform.

/** How somebody shows that an address is his. */
export interface Sign {
  /** "port 22 is open" */
  readonly how: string;
  /** In capitals; undefined: he is not in a network of this machine. */
  readonly mac: string | undefined;
  /** false: somebody may have answered in his place, or he may have gone since. */
  readonly isSure: boolean;
}

export interface Probes {
  /** undefined: nobody answers. */
  address(address: string): Promise<Sign | undefined>;
  /** Versions that an Image Factory has, without the broken ones; fails when it says none. */
  versions(factory: string): Promise<readonly string[]>;
  /** undefined: it tells the time. Else why it does not. */
  timeServer(server: string): Promise<string | undefined>;
}
