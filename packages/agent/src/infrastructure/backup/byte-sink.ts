/** Takes bytes and resolves when it wants more. */
export type Sink = (bytes: Uint8Array) => Promise<void>;
