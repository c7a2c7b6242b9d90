export interface Scripts {
  /** Resolves with the exit code; what the script says is logged as it says it. */
  run(
    path: string,
    args: readonly string[],
    work: { readonly log: (line: string) => void; readonly signal?: AbortSignal },
  ): Promise<number>;
}
