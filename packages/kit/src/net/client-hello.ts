// Reads what a TLS client offers before the handshake begins: whom it wants, so that it can be led there, and what it speaks,
// so that agents (h2 only, client certificate) and everyone else (HTTP/1.1, no certificate asked) can share one port. Nothing
// is decrypted. RFC 8446 4.1.2, RFC 6066 3, RFC 7301.

export type Peek =
  | {
      readonly kind: "tls";
      readonly alpn: readonly string[];
      /** Whom it wants to speak to; "" = it does not say. */
      readonly serverName: string;
    }
  | { readonly kind: "plain" }
  | { readonly kind: "more" };

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME_EXTENSION = 0;
const ALPN_EXTENSION = 16;
/** Larger hellos exist only in attacks. */
const MAX_HELLO_BYTES = 16 * 1024 + 5;

/** Looks at the first bytes of a connection. `more` = cannot tell yet. A broken hello counts as TLS: OpenSSL answers it. */
export function peekConnection(bytes: Uint8Array): Peek {
  if (bytes.length === 0) return { kind: "more" };
  if (bytes[0] !== HANDSHAKE_RECORD) return { kind: "plain" };
  const hello = collectHandshake(bytes);
  const nothing = { kind: "tls", alpn: [], serverName: "" } as const;
  if (hello === "more") return bytes.length >= MAX_HELLO_BYTES ? nothing : { kind: "more" };
  if (hello === "broken") return nothing;
  return { kind: "tls", ...readOffer(hello) };
}

/** A hello may span several records. Returns its body once complete. */
function collectHandshake(bytes: Uint8Array): Uint8Array | "more" | "broken" {
  const parts: Uint8Array[] = [];
  let have = 0;
  let need = Number.POSITIVE_INFINITY;
  for (let at = 0; have < need;) {
    if (at + 5 > bytes.length) return "more";
    if (bytes[at] !== HANDSHAKE_RECORD) return "broken";
    const length = ((bytes[at + 3] ?? 0) << 8) | (bytes[at + 4] ?? 0);
    if (length === 0) return "broken";
    if (at + 5 + length > bytes.length) return "more";
    parts.push(bytes.subarray(at + 5, at + 5 + length));
    have += length;
    at += 5 + length;
    if (need === Number.POSITIVE_INFINITY && have >= 4) {
      const head = Buffer.concat(parts);
      if (head[0] !== CLIENT_HELLO) return "broken";
      need = 4 + head.readUIntBE(1, 3);
      if (need > MAX_HELLO_BYTES) return "broken";
    }
  }
  return Buffer.concat(parts).subarray(4, need);
}

function readOffer(body: Uint8Array): { readonly alpn: readonly string[]; readonly serverName: string } {
  const view = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const names: string[] = [];
  let serverName = "";
  try {
    let at = 2 + 32;
    at += 1 + view.readUInt8(at); // session id
    at += 2 + view.readUInt16BE(at); // cipher suites
    at += 1 + view.readUInt8(at); // compression methods
    const end = at + 2 + view.readUInt16BE(at);
    at += 2;
    while (at + 4 <= end) {
      const type = view.readUInt16BE(at);
      const length = view.readUInt16BE(at + 2);
      if (type === SERVER_NAME_EXTENSION) serverName = hostNameIn(view.subarray(at + 4, at + 4 + length));
      if (type === ALPN_EXTENSION) {
        const stop = at + 4 + length;
        for (let name = at + 6; name < stop; name += 1 + view.readUInt8(name)) {
          names.push(view.toString("latin1", name + 1, name + 1 + view.readUInt8(name)));
        }
      }
      at += 4 + length;
    }
  } catch (err) {
    if (!(err instanceof RangeError)) throw err;
    return { alpn: [], serverName: "" }; // a cut hello: let the TLS stack refuse it
  }
  return { alpn: names, serverName };
}

function hostNameIn(extension: Buffer): string {
  // Length of the list, kind 0 (a host name), its length.
  if (extension.readUInt8(2) !== 0) return "";
  const length = extension.readUInt16BE(3);
  const name = extension.subarray(5, 5 + length);
  return name.length === length ? name.toString("latin1").toLowerCase() : "";
}

/** Agents speak h2 and nothing else; everybody who can do HTTP/1.1, or does not say, gets HTTP/1.1. */
export function wantsOnlyH2(alpn: readonly string[]): boolean {
  return alpn.includes("h2") && !alpn.includes("http/1.1");
}
