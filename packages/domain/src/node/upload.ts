/** Where the body of an upload waits for its node, which keeps it until an operation takes it. */
export interface UploadPlace {
  /** On the node. */
  readonly path: string;
  write(bytes: Uint8Array): Promise<void>;
  finish(): Promise<void>;
  discard(): Promise<void>;
}
