// The part of the NBD protocol that reading and writing disk images needs: fixed newstyle handshake, structured
// replies, block status. https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
export const NBD_MAGIC = 0x4e42444d41474943n; // NBDMAGIC
export const OPTION_MAGIC = 0x49484156454f5054n; // IHAVEOPT
export const OPTION_REPLY_MAGIC = 0x3e889045565a9n;
export const REQUEST_MAGIC = 0x25609513;
export const SIMPLE_REPLY_MAGIC = 0x67446698;
export const STRUCTURED_REPLY_MAGIC = 0x668e33ef;

export const FLAG_FIXED_NEWSTYLE = 1;
export const FLAG_NO_ZEROES = 2;

export const Option = {
  exportName: 1,
  abort: 2,
  info: 6,
  structuredReply: 8,
  setMetaContext: 10,
  go: 7,
} as const;
export const OptionReply = { ack: 1, info: 3, metaContext: 4 } as const;
export const Command = {
  read: 0,
  write: 1,
  disconnect: 2,
  flush: 3,
  writeZeroes: 6,
  blockStatus: 7,
} as const;
export const Chunk = {
  none: 0,
  offsetData: 1,
  offsetHole: 2,
  blockStatus: 5,
  error: 0x8001,
  errorOffset: 0x8002,
} as const;

/** Last chunk of a structured reply. */
export const CHUNK_DONE = 1;

export const ALLOCATION_CONTEXT = "base:allocation";
/** In base:allocation: reads as zeroes. */
export const STATE_ZERO = 2;
/** In a dirty bitmap's context: written since the bitmap was made. */
export const STATE_DIRTY = 1;

export const MAX_REQUEST_BYTES = 32 * 1024 * 1024;

export function optionRequest(option: number, data: Buffer): Buffer {
  const head = Buffer.alloc(16);
  head.writeBigUInt64BE(OPTION_MAGIC, 0);
  head.writeUInt32BE(option, 8);
  head.writeUInt32BE(data.length, 12);
  return Buffer.concat([head, data]);
}

/** Export name with its length before it, as several options want it. */
export function named(text: string): Buffer {
  const name = Buffer.from(text);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(name.length, 0);
  return Buffer.concat([head, name]);
}

export function goRequest(exportName: string): Buffer {
  return optionRequest(Option.go, Buffer.concat([named(exportName), Buffer.alloc(2)]));
}

/** What may be asked about blocks: allocation, and what a dirty bitmap holds. */
export function metaContextRequest(exportName: string, contexts: readonly string[]): Buffer {
  const count = Buffer.alloc(4);
  count.writeUInt32BE(contexts.length, 0);
  return optionRequest(
    Option.setMetaContext,
    Buffer.concat([named(exportName), count, ...contexts.map((context) => named(context))]),
  );
}

export function bitmapContext(bitmap: string): string {
  return `qemu:dirty-bitmap:${bitmap}`;
}

export function request(command: number, cookie: bigint, offset: number, length: number): Buffer {
  const head = Buffer.alloc(28);
  head.writeUInt32BE(REQUEST_MAGIC, 0);
  head.writeUInt16BE(0, 4);
  head.writeUInt16BE(command, 6);
  head.writeBigUInt64BE(cookie, 8);
  head.writeBigUInt64BE(BigInt(offset), 16);
  head.writeUInt32BE(length, 24);
  return head;
}
