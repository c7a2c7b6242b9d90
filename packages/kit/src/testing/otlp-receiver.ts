// A collector in a few lines: takes OTLP/HTTP with protobuf and keeps the spans for a test to look at.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** "" for a root. */
  readonly parentSpanId: string;
  readonly name: string;
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 2 = error. */
  readonly statusCode: number;
  readonly statusMessage: string;
  /** Trace ids of what it only refers to. */
  readonly links: readonly string[];
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface OtlpReceiver {
  /** Give this to `startTracing` as endpoint. */
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  readonly headers: readonly Readonly<Record<string, unknown>>[];
  named(name: string): ReceivedSpan;
  close(): Promise<void>;
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const headers: Record<string, unknown>[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const known = request.method === "POST" && request.url === "/v1/traces";
      if (known) {
        headers.push(request.headers);
        spans.push(...decodeTraces(Buffer.concat(chunks)));
      }
      response.writeHead(known ? 200 : 404, { "content-type": "application/x-protobuf" }).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    headers,
    named: (name) => {
      const found = spans.find((candidate) => candidate.name === name);
      if (found === undefined)
        throw new Error(`no span ${name} among ${spans.map((s) => s.name).join(", ")}`);
      return found;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

type Fields = Map<number, { bytes: Uint8Array; value: bigint }[]>;

/** A protobuf message without its schema: enough to pick fields by number. */
function fieldsOf(bytes: Uint8Array): Fields {
  const fields: Fields = new Map();
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const at = fields.get(number) ?? [];
    fields.set(number, at);
    if (type === WireType.LengthDelimited) at.push({ bytes: reader.bytes(), value: 0n });
    else if (type === WireType.Bit64) at.push({ bytes: new Uint8Array(), value: BigInt(reader.fixed64()) });
    else if (type === WireType.Varint) at.push({ bytes: new Uint8Array(), value: BigInt(reader.uint64()) });
    else reader.skip(type);
  }
  return fields;
}

const bytesOf = (fields: Fields, number: number): Uint8Array =>
  fields.get(number)?.[0]?.bytes ?? new Uint8Array();
const textOf = (fields: Fields, number: number): string =>
  Buffer.from(bytesOf(fields, number)).toString("utf8");
const hexOf = (fields: Fields, number: number): string =>
  Buffer.from(bytesOf(fields, number)).toString("hex");
const intOf = (fields: Fields, number: number): number => Number(fields.get(number)?.[0]?.value ?? 0n);
const manyOf = (fields: Fields, number: number): Fields[] =>
  (fields.get(number) ?? []).map(({ bytes }) => fieldsOf(bytes));

function decodeTraces(body: Uint8Array): ReceivedSpan[] {
  return manyOf(fieldsOf(body), 1).flatMap((resourceSpans) => {
    const resource = attributesOf(manyOf(fieldsOf(bytesOf(resourceSpans, 1)), 1));
    return manyOf(resourceSpans, 2)
      .flatMap((scopeSpans) => manyOf(scopeSpans, 2))
      .map((span) => {
        const status = fieldsOf(bytesOf(span, 15));
        return {
          traceId: hexOf(span, 1),
          spanId: hexOf(span, 2),
          parentSpanId: hexOf(span, 4),
          name: textOf(span, 5),
          kind: intOf(span, 6),
          attributes: attributesOf(manyOf(span, 9)),
          statusCode: intOf(status, 3),
          statusMessage: textOf(status, 2),
          links: manyOf(span, 13).map((link) => hexOf(link, 1)),
          resource,
        };
      });
  });
}

function attributesOf(pairs: readonly Fields[]): Record<string, unknown> {
  return Object.fromEntries(pairs.map((pair) => [textOf(pair, 1), anyValue(fieldsOf(bytesOf(pair, 2)))]));
}

function anyValue(value: Fields): unknown {
  if (value.has(1)) return textOf(value, 1);
  if (value.has(2)) return intOf(value, 2) === 1;
  if (value.has(3)) return intOf(value, 3);
  if (value.has(5)) return manyOf(fieldsOf(bytesOf(value, 5)), 1).map(anyValue);
  return undefined;
}
