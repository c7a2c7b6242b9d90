// Writers as a process of their own: `load.ts URL CLIENTS SECONDS` puts values of 512 bytes and prints what it measured.
// Frames are made by hand: a client's framework would be what is measured, whichever server answers.
import { randomBytes } from "node:crypto";
import { type ClientHttp2Session, connect } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { PutRequestSchema } from "../../packages/store/src/gen/proto/etcdserverpb/rpc_pb.ts";
import { utf8 } from "../../packages/store/src/keys.ts";

const [url = "", clients = "1", seconds = "5"] = process.argv.slice(2);
const value = randomBytes(512);
// As an API server has a few connections with many requests on each.
const lines = Array.from({ length: Math.min(8, Number(clients)) }, () => connect(url));
const latencies: number[] = [];
const warm = performance.now() + 1_000;
const until = warm + Number(seconds) * 1_000;
const headers = {
  ":method": "POST",
  ":path": "/etcdserverpb.KV/Put",
  "content-type": "application/grpc",
  te: "trailers",
};

function put(line: ClientHttp2Session, key: string): Promise<void> {
  const message = toBinary(PutRequestSchema, create(PutRequestSchema, { key: utf8(key), value }));
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  return new Promise((resolve, reject) => {
    const stream = line.request(headers);
    let status: string | string[] | undefined;
    stream.on("response", (head) => (status = head["grpc-status"]));
    stream.on("trailers", (trailers) => (status = trailers["grpc-status"]));
    stream.on("error", reject);
    stream.on("close", () =>
      status === "0" ? resolve() : reject(new Error(`a put ended with ${String(status)}`)),
    );
    stream.resume();
    stream.end(frame);
  });
}

async function writer(index: number): Promise<void> {
  const line = lines[index % lines.length];
  for (let i = 0; line !== undefined && performance.now() < until; i++) {
    const before = performance.now();
    await put(line, `/bench/${index}/${i % 200}`);
    if (before > warm) latencies.push(performance.now() - before);
  }
}

await Promise.all(Array.from({ length: Number(clients) }, (_, index) => writer(index)));
for (const line of lines) line.close();
latencies.sort((a, b) => a - b);
const at = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? 0;
console.log(
  JSON.stringify({ perSecond: latencies.length / Number(seconds), p50Ms: at(0.5), p99Ms: at(0.99) }),
);
