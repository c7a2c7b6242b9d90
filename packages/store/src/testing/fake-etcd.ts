// etcd's protocol in front of any Store, for tests of the adapter without the etcd program.
import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { type AppError, type ErrorCode, isAppError } from "@gpve/contracts/errors.ts";
import type { Compare, CompareResult, KeyValue, Op, OpResponse, Store, TxnRequest } from "../port.ts";
import {
  type Compare as EtcdCompare,
  KV,
  Lease,
  type RangeRequest as EtcdRange,
  type RequestOp,
  type TxnRequest as EtcdTxn,
  Watch,
} from "../gen/proto/etcdserverpb/rpc_pb.ts";

export interface FakeEtcd {
  readonly url: string;
  /** Runs before each call; may throw what a real member would answer, or hang. */
  intercept: (method: string) => Promise<void>;
  /** Runs after a call took effect, before its answer is sent. */
  beforeAnswer: (method: string) => Promise<void>;
  /** Cuts all connections and stops listening. */
  down(): Promise<void>;
  /** Listens again on the same port. */
  up(): Promise<void>;
}

export async function startFakeEtcd(store: Store): Promise<FakeEtcd> {
  const sessions = new Set<ServerHttp2Session>();
  let server: Http2Server | undefined;
  let port = 0;
  const listen = async (): Promise<void> => {
    const handler = connectNodeAdapter({ routes: (router) => routes(router, store, fake) });
    const created = createServer(handler);
    created.on("session", (session) => {
      sessions.add(session);
      session.on("close", () => sessions.delete(session));
      session.on("error", () => undefined);
    });
    await new Promise<void>((resolve) => created.listen(port, "127.0.0.1", resolve));
    const address = created.address();
    if (typeof address === "object" && address !== null) ({ port } = address);
    server = created;
  };
  const nothing = async (): Promise<void> => undefined;
  const fake: FakeEtcd = {
    get url() {
      return `http://127.0.0.1:${port}`;
    },
    intercept: nothing,
    beforeAnswer: nothing,
    async down() {
      for (const session of sessions) session.destroy();
      const closing = server;
      server = undefined;
      if (closing !== undefined) await new Promise((resolve) => closing.close(resolve));
    },
    up: listen,
  };
  await listen();
  return fake;
}

function routes(router: ConnectRouter, store: Store, fake: FakeEtcd): void {
  const call = async <T>(method: string, work: () => Promise<T>): Promise<T> => {
    await fake.intercept(method);
    try {
      const result = await work();
      await fake.beforeAnswer(method);
      return result;
    } catch (err) {
      throw isAppError(err) ? toConnect(err) : err;
    }
  };
  router.service(KV, {
    range: (request) =>
      call("range", async () => {
        const nowhere = request.key.length === 1 && request.key[0] === 0 && request.rangeEnd.length === 0;
        if (nowhere) return { header: header(await store.revision()) };
        const found = await store.range(fromRange(request));
        return { ...toRangeResponse(found), header: header(found.revision) };
      }),
    txn: (request) =>
      call("txn", async () => {
        const done = await store.txn(fromTxn(request));
        return {
          header: header(done.revision),
          succeeded: done.succeeded,
          responses: done.responses.map(toResponseOp),
        };
      }),
    compact: ({ revision }) =>
      call("compact", async () => {
        await store.compact(Number(revision));
        return {};
      }),
  });
  router.service(Lease, {
    leaseGrant: ({ ttl, id }) =>
      call("leaseGrant", async () => {
        const lease = await store.leaseGrant(Number(ttl), id);
        return { id: lease.id, ttl: BigInt(lease.ttlSeconds) };
      }),
    leaseRevoke: ({ id }) =>
      call("leaseRevoke", async () => {
        await store.leaseRevoke(id);
        return {};
      }),
    async *leaseKeepAlive(requests) {
      for await (const { id } of requests) {
        await fake.intercept("leaseKeepAlive");
        const ttl = await store.leaseKeepAlive(id).catch(() => 0);
        yield { id, ttl: BigInt(ttl) };
      }
    },
    leaseTimeToLive: ({ id }) =>
      call("leaseTimeToLive", async () => {
        const status = await store.leaseStatus(id);
        return {
          id,
          ttl: BigInt(status.ttlSeconds),
          grantedTtl: BigInt(status.grantedTtlSeconds),
          keys: [...status.keys],
        };
      }),
  });
  router.service(Watch, {
    async *watch(requests, context) {
      for await (const { requestUnion } of requests) {
        if (requestUnion.case !== "createRequest") continue;
        await fake.intercept("watch");
        const { key, rangeEnd, startRevision, prevKv, progressNotify } = requestUnion.value;
        const batches = store.watch({
          key,
          ...(rangeEnd.length === 0 ? {} : { end: rangeEnd }),
          ...(startRevision === 0n ? {} : { startRevision: Number(startRevision) }),
          prevKv,
          progress: progressNotify,
          signal: context.signal,
        });
        yield { created: true, header: header(await store.revision()) };
        for await (const batch of batches) {
          if (batch.type === "ready") continue;
          if (batch.type === "gap") {
            yield { canceled: true, compactRevision: BigInt(batch.compactRevision) };
            return;
          }
          const events = batch.type === "events" ? batch.events : [];
          yield {
            header: header(batch.revision),
            events: events.map((event) => ({
              type: event.type === "delete" ? 1 : 0,
              kv: toKeyValue(event.kv),
              ...(event.prevKv === undefined ? {} : { prevKv: toKeyValue(event.prevKv) }),
            })),
          };
        }
      }
    },
  });
}

const texts: Partial<Record<ErrorCode, readonly [Code, string]>> = {
  "store.compacted": [Code.OutOfRange, "etcdserver: mvcc: required revision has been compacted"],
  "object.not_found": [Code.NotFound, "etcdserver: requested lease not found"],
  "object.exists": [Code.FailedPrecondition, "etcdserver: lease already exists"],
  "store.full": [Code.ResourceExhausted, "etcdserver: mvcc: database space exceeded"],
  "request.invalid": [Code.OutOfRange, "etcdserver: mvcc: required revision is a future revision"],
};

function toConnect(err: AppError): ConnectError {
  const [code, text] = texts[err.code] ?? [Code.Unavailable, err.message];
  return new ConnectError(text, code);
}

function header(revision: number): { revision: bigint } {
  return { revision: BigInt(revision) };
}

const results: readonly CompareResult[] = ["equal", "greater", "less", "notEqual"];

function fromCompare({ key, rangeEnd, result, targetUnion: union }: EtcdCompare): Compare {
  const common = {
    key,
    ...(rangeEnd.length === 0 ? {} : { end: rangeEnd }),
    result: results[result] ?? "equal",
  };
  switch (union.case) {
    case "version":
      return { ...common, target: "version", version: Number(union.value) };
    case "createRevision":
      return { ...common, target: "createRevision", createRevision: Number(union.value) };
    case "modRevision":
      return { ...common, target: "modRevision", modRevision: Number(union.value) };
    case "lease":
      return { ...common, target: "lease", lease: union.value };
    case "value":
      return { ...common, target: "value", value: union.value };
    case undefined:
      throw new ConnectError("comparison without a target", Code.InvalidArgument);
  }
}

function fromRange(request: EtcdRange): Op & { type: "range" } {
  return {
    type: "range",
    key: request.key,
    ...(request.rangeEnd.length === 0 ? {} : { end: request.rangeEnd }),
    limit: Number(request.limit),
    revision: Number(request.revision),
    keysOnly: request.keysOnly,
    countOnly: request.countOnly,
    descending: request.sortOrder === 2,
    minModRevision: Number(request.minModRevision),
  };
}

function fromTxn(request: EtcdTxn): TxnRequest {
  return {
    compare: request.compare.map(fromCompare),
    success: request.success.map(fromOp),
    failure: request.failure.map(fromOp),
  };
}

function fromOp({ request }: RequestOp): Op {
  switch (request.case) {
    case "requestRange":
      return fromRange(request.value);
    case "requestPut": {
      const { key, value, lease, prevKv, ignoreValue, ignoreLease } = request.value;
      return { type: "put", key, value, lease, prevKv, ignoreValue, ignoreLease };
    }
    case "requestDeleteRange": {
      const { key, rangeEnd, prevKv } = request.value;
      return { type: "delete", key, prevKv, ...(rangeEnd.length === 0 ? {} : { end: rangeEnd }) };
    }
    case "requestTxn":
      return { type: "txn", ...fromTxn(request.value) };
    case undefined:
      throw new ConnectError("empty operation", Code.InvalidArgument);
  }
}

interface ResponseInit {
  readonly response:
    | { case: "responseRange"; value: ReturnType<typeof toRangeResponse> }
    | { case: "responsePut"; value: { prevKv?: ReturnType<typeof toKeyValue> } }
    | { case: "responseDeleteRange"; value: { deleted: bigint; prevKvs: ReturnType<typeof toKeyValue>[] } }
    | { case: "responseTxn"; value: { succeeded: boolean; responses: ResponseInit[] } };
}

function toResponseOp(op: OpResponse): ResponseInit {
  switch (op.type) {
    case "range":
      return { response: { case: "responseRange", value: toRangeResponse(op) } };
    case "put": {
      const value = op.prevKv === undefined ? {} : { prevKv: toKeyValue(op.prevKv) };
      return { response: { case: "responsePut", value } };
    }
    case "delete":
      return {
        response: {
          case: "responseDeleteRange",
          value: { deleted: BigInt(op.deleted), prevKvs: op.prevKvs.map(toKeyValue) },
        },
      };
    case "txn":
      return {
        response: {
          case: "responseTxn",
          value: { succeeded: op.succeeded, responses: op.responses.map(toResponseOp) },
        },
      };
  }
}

function toRangeResponse(found: { kvs: readonly KeyValue[]; more: boolean; count: number }) {
  return { kvs: found.kvs.map(toKeyValue), more: found.more, count: BigInt(found.count) };
}

function toKeyValue(kv: KeyValue) {
  return {
    key: kv.key,
    value: kv.value,
    createRevision: BigInt(kv.createRevision),
    modRevision: BigInt(kv.modRevision),
    version: BigInt(kv.version),
    lease: kv.lease,
  };
}
