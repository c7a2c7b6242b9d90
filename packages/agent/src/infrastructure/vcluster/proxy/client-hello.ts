// The server name in the first bytes of a TLS connection (RFC 8446 4.1.2, RFC 6066 3). Nothing is decrypted.

export type Peeked = { readonly serverName: string } | "incomplete" | "none";

const LARGEST = 16 * 1024 + 5;

/** "none": no TLS, or a client that names no server. */
export function peekServerName(bytes: Buffer): Peeked {
  if (bytes.length >= 1 && bytes[0] !== 22) return "none";
  if (bytes.length < 5) return "incomplete";
  const recordEnd = 5 + bytes.readUInt16BE(3);
  if (recordEnd > LARGEST) return "none";
  if (bytes.length < recordEnd) return "incomplete";
  const hello = bytes.subarray(5, recordEnd);
  try {
    return serverNameIn(hello);
  } catch (err) {
    // A length that leads out of it: no client writes that.
    if (err instanceof RangeError) return "none";
    throw err;
  }
}

function serverNameIn(hello: Buffer): Peeked {
  if (hello[0] !== 1) return "none";
  // Type and length, version, random.
  let at = 4 + 2 + 32;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  const end = Math.min(hello.length, at + 2 + hello.readUInt16BE(at));
  at += 2;
  while (at + 4 <= end) {
    const [type, length] = [hello.readUInt16BE(at), hello.readUInt16BE(at + 2)];
    if (type === 0) return hostNameIn(hello.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return "none";
}

function hostNameIn(extension: Buffer): Peeked {
  // Length of the list, kind 0 (a host name), its length.
  if (extension.readUInt8(2) !== 0) return "none";
  const length = extension.readUInt16BE(3);
  const name = extension.subarray(5, 5 + length);
  return name.length === length && length > 0
    ? { serverName: name.toString("latin1").toLowerCase() }
    : "none";
}
