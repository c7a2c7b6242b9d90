/** A side that breaks off has ended. */
export async function pump(
  from: AsyncIterable<Uint8Array>,
  to: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  try {
    for await (const bytes of from) await to(bytes);
  } catch {
    // The other side is told by the close that follows.
  }
}
