// The calls of etcd's KV service straight from HTTP/2 frames. A framework that can do every kind of call spends several
// times as much on each as the store does; an API server makes thousands of these, and of one kind: one message, one
// answer. Whatever else comes (streams, compression, other services) is not taken and goes the framework's way.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { KV } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import type { CallContext, KvCalls } from "./kv.ts";

/** gRPC puts a flag and a length before each message. */
const PREFIX_BYTES = 5;
const CONTENT_TYPE = "application/grpc+proto";
const OK_HEADERS = { ":status": 200, "content-type": CONTENT_TYPE };
const OK_TRAILERS = { "grpc-status": "0" };

type Answer = (message: Uint8Array, context: CallContext) => Promise<Uint8Array>;

export interface PlainCalls {
  /** Answers the call if it is one of these; false: it is somebody else's. */
  take(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean;
}

export function plainKvCalls(kv: KvCalls<CallContext>, maxBytes: number): PlainCalls {
  const answers = answersOf(kv);
  return {
    take(stream, headers) {
      const answer = answers.get(headers[":path"] ?? "");
      if (answer === undefined || !isPlain(headers)) return false;
      receive(stream, answer, maxBytes);
      return true;
    },
  };
}

function answersOf(kv: KvCalls<CallContext>): ReadonlyMap<string, Answer> {
  const { range, put, deleteRange, txn, compact } = KV.method;
  const path = ({ name }: { readonly name: string }): string => `/${KV.typeName}/${name}`;
  return new Map<string, Answer>([
    [
      path(range),
      async (bytes, context) =>
        toBinary(range.output, create(range.output, await kv.range(fromBinary(range.input, bytes), context))),
    ],
    [
      path(put),
      async (bytes, context) =>
        toBinary(put.output, create(put.output, await kv.put(fromBinary(put.input, bytes), context))),
    ],
    [
      path(deleteRange),
      async (bytes, context) => {
        const done = await kv.deleteRange(fromBinary(deleteRange.input, bytes), context);
        return toBinary(deleteRange.output, create(deleteRange.output, done));
      },
    ],
    [
      path(txn),
      async (bytes, context) =>
        toBinary(txn.output, create(txn.output, await kv.txn(fromBinary(txn.input, bytes), context))),
    ],
    [
      path(compact),
      async (bytes, context) => {
        const done = await kv.compact(fromBinary(compact.input, bytes), context);
        return toBinary(compact.output, create(compact.output, done));
      },
    ],
  ]);
}

function isPlain(headers: IncomingHttpHeaders): boolean {
  const type = headers["content-type"];
  const encoding = headers["grpc-encoding"] ?? "identity";
  return (
    headers[":method"] === "POST" &&
    (type === "application/grpc" || type === CONTENT_TYPE) &&
    encoding === "identity"
  );
}

function receive(stream: ServerHttp2Stream, answer: Answer, maxBytes: number): void {
  const controller = new AbortController();
  const chunks: Buffer[] = [];
  let length = 0;
  stream.on("aborted", () => controller.abort());
  // A client that goes away in the middle of its call is no trouble of ours.
  stream.on("error", () => undefined);
  stream.on("data", (chunk: Buffer) => {
    length += chunk.length;
    if (length <= maxBytes + PREFIX_BYTES) chunks.push(chunk);
    else if (!stream.headersSent) refuse(stream, tooLarge(maxBytes));
  });
  stream.on("end", () => {
    if (stream.headersSent || stream.aborted) return;
    const [first] = chunks;
    const all = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks, length);
    void respond(stream, () => answer(messageIn(all), { signal: controller.signal }));
  });
}

/** The one message of the call. */
function messageIn(all: Buffer): Uint8Array {
  if (all.length < PREFIX_BYTES || all.readUInt32BE(1) !== all.length - PREFIX_BYTES)
    throw new ConnectError("protocol error: not one whole message", Code.InvalidArgument);
  if (all[0] !== 0) throw new ConnectError("protocol error: a compressed message", Code.Internal);
  return all.subarray(PREFIX_BYTES);
}

async function respond(stream: ServerHttp2Stream, work: () => Promise<Uint8Array>): Promise<void> {
  try {
    const message = await work();
    if (stream.destroyed || stream.closed) return;
    const prefix = Buffer.alloc(PREFIX_BYTES);
    prefix.writeUInt32BE(message.length, 1);
    stream.respond(OK_HEADERS, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers(OK_TRAILERS));
    stream.end(Buffer.concat([prefix, message]));
  } catch (err) {
    const told =
      err instanceof ConnectError
        ? err
        : new ConnectError("internal error", Code.Internal, undefined, undefined, err);
    if (!stream.destroyed && !stream.closed && !stream.headersSent) refuse(stream, told);
  }
}

function refuse(stream: ServerHttp2Stream, err: ConnectError): void {
  const status = new Headers();
  setTrailerStatus(status, err);
  stream.respond({ ...OK_HEADERS, ...Object.fromEntries(status) }, { endStream: true });
  // What it still sends is not waited for.
  if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
}

function tooLarge(maxBytes: number): ConnectError {
  return new ConnectError(`message is larger than ${maxBytes} bytes`, Code.ResourceExhausted);
}
