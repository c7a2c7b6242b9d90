// How one node's proxy tells another's which cluster a connection is for: a line before the client's first byte. A client's
// first byte is that of a TLS record, so no client says this by accident; who says it on purpose gets what he gets by asking
// for that name.

const LINE = /^GPVE-VC ([a-z0-9._-]{1,255})\n/;
const LONGEST = 8 + 255 + 1;

export function passOnWords(serverName: string): string {
  return `GPVE-VC ${serverName}\n`;
}

/** undefined = no other proxy speaks. */
export function passedOnName(
  bytes: Buffer,
): { readonly serverName: string; readonly rest: Buffer } | "incomplete" | undefined {
  const head = bytes.subarray(0, LONGEST).toString("latin1");
  if (!head.startsWith("GPVE-VC ".slice(0, head.length)) || head === "") return undefined;
  const [line, serverName] = LINE.exec(head) ?? [];
  if (line === undefined || serverName === undefined)
    return bytes.length < LONGEST && !head.includes("\n") ? "incomplete" : undefined;
  return { serverName, rest: bytes.subarray(line.length) };
}
