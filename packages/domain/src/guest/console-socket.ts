/** A connection to a socket that a guest's process serves. */
export interface ConsoleSocket {
  readonly output: AsyncIterable<Uint8Array>;
  /** Resolves when more may be written. */
  write(chunk: Uint8Array): Promise<void>;
  close(): void;
  readonly closed: Promise<void>;
}
