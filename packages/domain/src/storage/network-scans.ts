// What servers in the network offer.

export interface ShareLogin {
  readonly username: string;
  readonly password: string;
  readonly domain?: string | undefined;
}

export interface NetworkScans {
  exports(server: string, signal: AbortSignal): Promise<{ path: string; options: string }[]>;
  /** Without a login, as a guest. */
  shares(
    server: string,
    login: ShareLogin | undefined,
    signal: AbortSignal,
  ): Promise<{ share: string; description: string }[]>;
}
