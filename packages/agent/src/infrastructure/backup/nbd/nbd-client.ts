// Reads and writes a disk image through qemu-nbd or a running QEMU, whatever the image's format.
import type { Socket } from "node:net";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import type { ChangedExtent, Extent } from "@gpve/domain/backup/backup-ports.ts";
import {
  ALLOCATION_CONTEXT,
  bitmapContext,
  Chunk,
  CHUNK_DONE,
  Command,
  FLAG_FIXED_NEWSTYLE,
  FLAG_NO_ZEROES,
  goRequest,
  MAX_REQUEST_BYTES,
  metaContextRequest,
  NBD_MAGIC,
  Option,
  OPTION_MAGIC,
  OPTION_REPLY_MAGIC,
  optionRequest,
  OptionReply,
  request,
  SIMPLE_REPLY_MAGIC,
  STATE_DIRTY,
  STATE_ZERO,
  STRUCTURED_REPLY_MAGIC,
} from "./nbd-protocol.ts";
import { SocketReader } from "./socket-reader.ts";

/** One export, one request at a time. */
export class NbdClient {
  readonly size: number;
  readonly #socket: Socket;
  readonly #reader: SocketReader;
  /** Contexts the server told us about, and their ids. */
  readonly #contexts: ReadonlyMap<string, number>;
  readonly #bitmap: string | undefined;
  #cookie = 0n;

  private constructor(
    socket: Socket,
    reader: SocketReader,
    size: number,
    contexts: ReadonlyMap<string, number>,
    bitmap: string | undefined,
  ) {
    this.#socket = socket;
    this.#reader = reader;
    this.size = size;
    this.#contexts = contexts;
    this.#bitmap = bitmap;
  }

  /**
   * With a bitmap, `changes` tells what it holds. `keep` gets the connection before it is that of a disk. The socket is
   * ours or the owner's: a guest could put a link to another one into its folder.
   */
  static async open(
    path: string,
    exportName: string,
    bitmap?: string,
    keep: (connection: Socket) => void = () => undefined,
    ownerUid?: number,
  ): Promise<NbdClient> {
    const socket = await dial(path, ownerUid);
    try {
      const reader = new SocketReader(socket);
      await greet(socket, reader);
      await option(socket, reader, optionRequest(Option.structuredReply, Buffer.alloc(0)));
      const wanted = [ALLOCATION_CONTEXT, ...(bitmap === undefined ? [] : [bitmapContext(bitmap)])];
      const contexts = await option(socket, reader, metaContextRequest(exportName, wanted));
      // Until here QEMU does not mind when we hang up.
      keep(socket);
      const infos = await option(socket, reader, goRequest(exportName));
      const info = infos.find(({ type, data }) => type === OptionReply.info && data.readUInt16BE(0) === 0);
      if (info === undefined)
        throw new AppError("internal.error", `the NBD server did not tell the size of '${exportName}'`);
      return new NbdClient(
        socket,
        reader,
        Number(info.data.readBigUInt64BE(2)),
        new Map(
          contexts
            .filter(({ type }) => type === OptionReply.metaContext)
            .map(({ data }) => [data.toString("utf8", 4), data.readUInt32BE(0)]),
        ),
        bitmap,
      );
    } catch (err) {
      socket.destroy();
      throw err;
    }
  }

  async read(offset: number, length: number): Promise<Buffer> {
    checkLength(length);
    const data = Buffer.alloc(length);
    await this.#ask(Command.read, offset, length, undefined, (type, chunk) => {
      const at = Number(chunk.readBigUInt64BE(0)) - offset;
      if (type === Chunk.offsetData) chunk.copy(data, at, 8);
      // A hole is zeroes, which are there already.
    });
    return data;
  }

  async write(offset: number, data: Uint8Array): Promise<void> {
    checkLength(data.length);
    await this.#ask(Command.write, offset, data.length, data);
  }

  async writeZeroes(offset: number, length: number): Promise<void> {
    await this.#ask(Command.writeZeroes, offset, length);
  }

  async flush(): Promise<void> {
    await this.#ask(Command.flush, 0, 0);
  }

  /** What is known to be zero without reading it, from `offset` on; at least one extent, not necessarily all of `length`. */
  async extents(offset: number, length: number): Promise<readonly Extent[]> {
    const found = await this.#status(ALLOCATION_CONTEXT, offset, length);
    if (found === undefined) return [{ length, isZero: false }];
    return found.map(([bytes, state]) => ({ length: bytes, isZero: (state & STATE_ZERO) !== 0 }));
  }

  /** What the bitmap holds, from `offset` on; at least one extent. */
  async changes(offset: number, length: number): Promise<readonly ChangedExtent[]> {
    const context = bitmapContext(this.#bitmap ?? "");
    const found = await this.#status(context, offset, length);
    // Taking a disk that cannot tell as unchanged would lose data.
    if (found === undefined)
      throw new AppError("internal.error", `the NBD server does not serve the dirty bitmap '${context}'`);
    return found.map(([bytes, state]) => ({ length: bytes, isDirty: (state & STATE_DIRTY) !== 0 }));
  }

  async #status(
    context: string,
    offset: number,
    length: number,
  ): Promise<readonly [bytes: number, state: number][] | undefined> {
    const id = this.#contexts.get(context);
    if (id === undefined) return undefined;
    const found: [number, number][] = [];
    await this.#ask(Command.blockStatus, offset, Math.min(length, 0xffff_fe00), undefined, (_type, chunk) => {
      if (chunk.readUInt32BE(0) !== id) return;
      for (let at = 4; at + 8 <= chunk.length; at += 8)
        found.push([chunk.readUInt32BE(at), chunk.readUInt32BE(at + 4)]);
    });
    return found;
  }

  close(): void {
    this.#socket.end(request(Command.disconnect, 0n, 0, 0));
  }

  async #ask(
    command: number,
    offset: number,
    length: number,
    body?: Uint8Array,
    onChunk?: (type: number, data: Buffer) => void,
  ): Promise<void> {
    const cookie = ++this.#cookie;
    const head = request(command, cookie, offset, length);
    this.#socket.write(body === undefined ? head : Buffer.concat([head, body]));
    for (;;) {
      const magic = (await this.#reader.take(4)).readUInt32BE(0);
      if (magic === SIMPLE_REPLY_MAGIC) {
        const reply = await this.#reader.take(12);
        failOn(reply.readUInt32BE(0), command, offset);
        if (command === Command.read) {
          // A server without structured replies sends the data and nothing else.
          const position = Buffer.alloc(8);
          position.writeBigUInt64BE(BigInt(offset));
          onChunk?.(Chunk.offsetData, Buffer.concat([position, await this.#reader.take(length)]));
        }
        return;
      }
      if (magic !== STRUCTURED_REPLY_MAGIC)
        throw new AppError("internal.error", "the NBD server answered nonsense");
      const reply = await this.#reader.take(16);
      const type = reply.readUInt16BE(2);
      const data = await this.#reader.take(reply.readUInt32BE(12));
      if (reply.readBigUInt64BE(4) !== cookie)
        throw new AppError("internal.error", "the NBD server answered another request");
      if (type === Chunk.error || type === Chunk.errorOffset) failOn(data.readUInt32BE(0), command, offset);
      else if (type !== Chunk.none) onChunk?.(type, data);
      if ((reply.readUInt16BE(0) & CHUNK_DONE) !== 0) return;
    }
  }
}

async function dial(path: string, ownerUid: number | undefined): Promise<Socket> {
  try {
    return await connectUnixSocket(path, ownerUid === undefined ? {} : { ownerUid });
  } catch (cause) {
    throw new AppError("internal.error", `cannot reach the NBD server at ${path}: ${messageOf(cause)}`, {
      cause,
    });
  }
}

async function greet(socket: Socket, reader: SocketReader): Promise<void> {
  const hello = await reader.take(18);
  if (hello.readBigUInt64BE(0) !== NBD_MAGIC || hello.readBigUInt64BE(8) !== OPTION_MAGIC) {
    throw new AppError("internal.error", "this is not an NBD server");
  }
  const flags = Buffer.alloc(4);
  flags.writeUInt32BE(hello.readUInt16BE(16) & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES), 0);
  socket.write(flags);
}

interface OptionAnswer {
  readonly type: number;
  readonly data: Buffer;
}

/** Sends an option and gathers its answers. What the server does not know is left out; only `go` must work. */
async function option(socket: Socket, reader: SocketReader, bytes: Buffer): Promise<OptionAnswer[]> {
  socket.write(bytes);
  const wanted = bytes.readUInt32BE(8);
  const answers: OptionAnswer[] = [];
  for (;;) {
    const head = await reader.take(20);
    if (head.readBigUInt64BE(0) !== OPTION_REPLY_MAGIC)
      throw new AppError("internal.error", "the NBD server answered nonsense");
    const type = head.readUInt32BE(12);
    const data = await reader.take(head.readUInt32BE(16));
    if (type === OptionReply.ack) return answers;
    if (type >= 0x8000_0000) {
      if (wanted !== Option.go) return answers;
      throw new AppError(
        "internal.error",
        `the NBD server refused the export: ${data.toString("utf8") || `error ${type & 0xffff}`}`,
      );
    }
    answers.push({ type, data });
  }
}

const ERRORS: Readonly<Record<number, string>> = {
  1: "not permitted",
  5: "input/output error",
  12: "out of memory",
  22: "invalid argument",
  28: "no space left on device",
  75: "too large",
  95: "not supported",
  108: "server is shutting down",
};

function failOn(code: number, command: number, offset: number): void {
  if (code === 0) return;
  const what =
    command === Command.read ? "reading" : command === Command.blockStatus ? "looking at" : "writing";
  throw new AppError(
    code === 28 ? "capacity.exceeded" : "internal.error",
    `${what} the image at ${offset} failed: ${ERRORS[code] ?? `error ${code}`}`,
    { pveStatus: 500 },
  );
}

function checkLength(length: number): void {
  if (length > MAX_REQUEST_BYTES)
    throw new RangeError(`an NBD request may have ${MAX_REQUEST_BYTES} bytes, not ${length}`);
}
