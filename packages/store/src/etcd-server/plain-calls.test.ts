import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from "node:http2";
import { gzipSync } from "node:zlib";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PutRequestSchema, PutResponseSchema } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { utf8 } from "../keys.ts";
import type { Store } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { MAX_REQUEST_BYTES } from "../txn-rules.ts";
import { type EtcdListener, listenEtcd } from "./listen.ts";

const PUT = "/etcdserverpb.KV/Put";
const putOf = (key: string, value = "v"): Uint8Array =>
  toBinary(PutRequestSchema, create(PutRequestSchema, { key: utf8(key), value: utf8(value) }));

/** As gRPC has it before each message. */
function framed(message: Uint8Array, flag = 0, length = message.length): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, message]);
}

describe("calls in frames made by hand", () => {
  let store: Store;
  let listener: EtcdListener;
  let session: ClientHttp2Session;

  beforeEach(async () => {
    store = openSqliteStore({ path: ":memory:" });
    listener = await listenEtcd({ store, name: "x", listen: { host: "127.0.0.1", port: 0 } });
    session = connect(listener.url);
  });
  afterEach(async () => {
    session.close();
    await listener.close();
    await store.close();
  });

  interface Answered {
    readonly status: string;
    readonly words: string;
    readonly body: Buffer;
  }

  function call(
    parts: readonly Buffer[],
    headers: Readonly<Record<string, string>> = {},
    path = PUT,
  ): Promise<Answered> {
    return new Promise((resolve, reject) => {
      const type = "application/grpc";
      const head = { ":method": "POST", ":path": path, "content-type": type, te: "trailers", ...headers };
      const stream = session.request(head);
      let told: IncomingHttpHeaders = {};
      const body: Buffer[] = [];
      stream.on("response", (response) => (told = { ...told, ...response }));
      stream.on("trailers", (trailers) => (told = { ...told, ...trailers }));
      stream.on("data", (data: Buffer) => body.push(data));
      stream.on("error", reject);
      stream.on("close", () => {
        const words = decodeURIComponent([told["grpc-message"]].flat().join(""));
        resolve({ status: String(told["grpc-status"]), words, body: Buffer.concat(body) });
      });
      for (const part of parts) stream.write(part);
      stream.end();
    });
  }

  const keys = async (): Promise<string[]> =>
    (await store.range({ key: utf8("a"), end: utf8("z") })).kvs.map(({ key }) => Buffer.from(key).toString());

  test("are answered, however the message comes in pieces", async () => {
    const whole = framed(putOf("key"));
    const { status, body } = await call([whole.subarray(0, 3), whole.subarray(3, 7), whole.subarray(7)]);
    expect(status).toBe("0");
    expect(fromBinary(PutResponseSchema, body.subarray(5)).header?.revision).toBe(2n);
    expect(await keys()).toEqual(["key"]);
  });

  test("are refused in etcd's words", async () => {
    const { status, words } = await call([framed(putOf(""))]);
    expect([status, words]).toEqual([String(Code.InvalidArgument), "etcdserver: key is not provided"]);
  });

  test.each([
    ["nothing", Buffer.alloc(0)],
    ["half a prefix", Buffer.alloc(3)],
    ["less than it says", framed(putOf("half"), 0, 4_000)],
    ["two messages", Buffer.concat([framed(putOf("one")), framed(putOf("two"))])],
    ["a compressed message without a word of it", framed(gzipSync(putOf("zip")), 1)],
    ["no message of this kind", framed(Buffer.from([0xff, 0xff, 0xff]))],
  ])("with %s change nothing", async (_what, sent) => {
    const { status } = await call([sent]);
    expect(Number(status)).toBeGreaterThan(0);
    expect(await keys()).toEqual([]);
    // And the line is good for the next one.
    expect((await call([framed(putOf("next"))])).status).toBe("0");
  });

  test("that are too large are cut off, and take no memory", async () => {
    const large = Buffer.alloc(4 * MAX_REQUEST_BYTES, 1);
    const { status } = await call([framed(large)]);
    expect(status).toBe(String(Code.ResourceExhausted));
    expect((await call([framed(putOf("next"))])).status).toBe("0");
  });

  test("with compressed messages and unknown methods go the framework's way", async () => {
    const zipped = framed(gzipSync(putOf("packed")), 1);
    expect((await call([zipped], { "grpc-encoding": "gzip" })).status).toBe("0");
    expect(await keys()).toEqual(["packed"]);
    const unknown = await call([framed(putOf("x"))], {}, "/etcdserverpb.KV/Nothing");
    expect(unknown.status).not.toBe("0");
  });

  test("whose caller has gone leave the line and the store as they are", async () => {
    const stream = session.request({ ":method": "POST", ":path": PUT, "content-type": "application/grpc" });
    stream.on("error", () => undefined);
    stream.write(framed(putOf("gone")).subarray(0, 8));
    stream.close(8);
    expect((await call([framed(putOf("next"))])).status).toBe("0");
    expect(await keys()).toEqual(["next"]);
  });
});
