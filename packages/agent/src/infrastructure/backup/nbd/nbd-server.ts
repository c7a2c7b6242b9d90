// A read-only NBD server on a unix socket, for disks that are not there yet: a read waits until its bytes are.
import { createServer, type Server, type Socket } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import {
  Command,
  FLAG_FIXED_NEWSTYLE,
  FLAG_NO_ZEROES,
  MAX_REQUEST_BYTES,
  NBD_MAGIC,
  Option,
  OPTION_MAGIC,
  OPTION_REPLY_MAGIC,
  OptionReply,
  REQUEST_MAGIC,
  SIMPLE_REPLY_MAGIC,
} from "./nbd-protocol.ts";
import { SocketReader } from "./socket-reader.ts";

export interface ServedDisk {
  readonly size: number;
  read(offset: number, length: number): Promise<Uint8Array>;
}

const UNSUPPORTED = 0x8000_0001;
const UNKNOWN_EXPORT = 0x8000_0006;
const HAS_FLAGS = 1;
const READ_ONLY = 2;
const MULTIPLE_CONNECTIONS = 256;
const EPERM = 1;
const EIO = 5;
const EINVAL = 22;
const MAX_OPTION_BYTES = 65_536;
const MAX_ZEROES = 124;

export class NbdServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Export name -> disk. */
  static async listen(path: string, disks: ReadonlyMap<string, ServedDisk>): Promise<NbdServer> {
    const server = createServer();
    const nbd = new NbdServer(server);
    server.on("connection", (socket) => {
      nbd.#sockets.add(socket);
      socket.on("error", (err) => ignore(err, "the reader hung up"));
      socket.once("close", () => nbd.#sockets.delete(socket));
      serve(socket, disks)
        .catch((err: unknown) => ignore(err, "a reader that speaks nonsense is hung up on"))
        .finally(() => socket.destroy());
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, resolve);
    });
    return nbd;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

async function serve(socket: Socket, disks: ReadonlyMap<string, ServedDisk>): Promise<void> {
  const reader = new SocketReader(socket);
  const hello = Buffer.alloc(18);
  hello.writeBigUInt64BE(NBD_MAGIC, 0);
  hello.writeBigUInt64BE(OPTION_MAGIC, 8);
  hello.writeUInt16BE(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES, 16);
  socket.write(hello);
  const wantsZeroes = ((await reader.take(4)).readUInt32BE(0) & FLAG_NO_ZEROES) === 0;
  const disk = await choose(socket, reader, disks, wantsZeroes);
  if (disk !== undefined) await answer(socket, reader, disk);
}

/** The options before the first request; undefined = the client has changed its mind. */
async function choose(
  socket: Socket,
  reader: SocketReader,
  disks: ReadonlyMap<string, ServedDisk>,
  wantsZeroes: boolean,
): Promise<ServedDisk | undefined> {
  for (;;) {
    const head = await reader.take(16);
    const length = head.readUInt32BE(12);
    if (head.readBigUInt64BE(0) !== OPTION_MAGIC || length > MAX_OPTION_BYTES) throw nonsense();
    const option = head.readUInt32BE(8);
    const data = length === 0 ? Buffer.alloc(0) : await reader.take(length);
    if (option === Option.exportName) {
      const disk = disks.get(data.toString("utf8"));
      if (disk === undefined) return undefined;
      socket.write(Buffer.concat([exportInfo(disk), Buffer.alloc(wantsZeroes ? MAX_ZEROES : 0)]));
      return disk;
    }
    if (option === Option.abort) {
      socket.write(optionReply(option, OptionReply.ack));
      return undefined;
    }
    if (option !== Option.go && option !== Option.info) {
      socket.write(optionReply(option, UNSUPPORTED));
      continue;
    }
    const disk = disks.get(data.toString("utf8", 4, 4 + data.readUInt32BE(0)));
    if (disk === undefined) {
      socket.write(optionReply(option, UNKNOWN_EXPORT));
      continue;
    }
    socket.write(optionReply(option, OptionReply.info, Buffer.concat([Buffer.alloc(2), exportInfo(disk)])));
    socket.write(optionReply(option, OptionReply.ack));
    if (option === Option.go) return disk;
  }
}

/** Answers come as they are ready: a read that waits does not keep others waiting. */
async function answer(socket: Socket, reader: SocketReader, disk: ServedDisk): Promise<void> {
  for (;;) {
    const head = await reader.take(28);
    if (head.readUInt32BE(0) !== REQUEST_MAGIC) throw nonsense();
    const command = head.readUInt16BE(6);
    const cookie = head.readBigUInt64BE(8);
    const offset = Number(head.readBigUInt64BE(16));
    const length = head.readUInt32BE(24);
    if (command === Command.disconnect) return;
    if (command === Command.write) throw nonsense();
    if (command === Command.flush) socket.write(simpleReply(cookie, 0));
    else if (command !== Command.read) socket.write(simpleReply(cookie, EPERM));
    else if (length > MAX_REQUEST_BYTES || offset + length > disk.size)
      socket.write(simpleReply(cookie, EINVAL));
    else
      void disk.read(offset, length).then(
        (data) => socket.write(Buffer.concat([simpleReply(cookie, 0), data])),
        () => socket.write(simpleReply(cookie, EIO)),
      );
  }
}

function exportInfo({ size }: ServedDisk): Buffer {
  const info = Buffer.alloc(10);
  info.writeBigUInt64BE(BigInt(size), 0);
  info.writeUInt16BE(HAS_FLAGS | READ_ONLY | MULTIPLE_CONNECTIONS, 8);
  return info;
}

function optionReply(option: number, type: number, data: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(20);
  head.writeBigUInt64BE(OPTION_REPLY_MAGIC, 0);
  head.writeUInt32BE(option, 8);
  head.writeUInt32BE(type, 12);
  head.writeUInt32BE(data.length, 16);
  return Buffer.concat([head, data]);
}

function simpleReply(cookie: bigint, error: number): Buffer {
  const head = Buffer.alloc(16);
  head.writeUInt32BE(SIMPLE_REPLY_MAGIC, 0);
  head.writeUInt32BE(error, 4);
  head.writeBigUInt64BE(cookie, 8);
  return head;
}

function nonsense(): AppError {
  return new AppError("request.invalid", "the NBD client sent nonsense");
}
