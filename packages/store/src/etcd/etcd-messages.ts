// Our port's shapes as etcd's messages, and back.
import { type MessageInitShape, create } from "@bufbuild/protobuf";
import type {
  Compare as PortCompare,
  KeyValue as PortKeyValue,
  Op,
  OpResponse,
  RangeRequest,
  RangeResponse,
  StoreEvent,
  TxnRequest,
  TxnResponse,
} from "../port.ts";
import {
  type CompareSchema,
  type Event,
  type KeyValue,
  type RangeRequestSchema,
  type RangeResponse as EtcdRangeResponse,
  type RequestOpSchema,
  type ResponseHeader,
  type ResponseOp,
  type TxnRequestSchema,
  TxnResponseSchema,
  type TxnResponse as EtcdTxnResponse,
} from "../gen/proto/etcdserverpb/rpc_pb.ts";

type Init<T extends Parameters<typeof create>[0]> = MessageInitShape<T>;

// etcd's enumerations; see rpc.proto.
const DESCENDING = 2;
const DELETED = 1;
const targets = { version: 0, createRevision: 1, modRevision: 2, value: 3, lease: 4 } as const;

const EMPTY = new Uint8Array(0);

export function toRange(request: RangeRequest): Init<typeof RangeRequestSchema> {
  return {
    key: request.key,
    rangeEnd: request.end ?? EMPTY,
    limit: BigInt(request.limit ?? 0),
    revision: BigInt(request.revision ?? 0),
    keysOnly: request.keysOnly ?? false,
    countOnly: request.countOnly ?? false,
    minModRevision: BigInt(request.minModRevision ?? 0),
    sortOrder: request.descending === true ? DESCENDING : 0,
  };
}

export function fromRange(response: EtcdRangeResponse): RangeResponse {
  return {
    kvs: response.kvs.map(fromKeyValue),
    more: response.more,
    count: Number(response.count),
    revision: revisionOf(response.header),
  };
}

export function toTxn(request: TxnRequest): Init<typeof TxnRequestSchema> {
  return {
    compare: request.compare.map(toCompare),
    success: request.success.map(toOp),
    failure: (request.failure ?? []).map(toOp),
  };
}

export function fromTxn(response: EtcdTxnResponse, revision = revisionOf(response.header)): TxnResponse {
  return {
    succeeded: response.succeeded,
    revision,
    responses: response.responses.map((op) => fromOp(op, revision)),
  };
}

export function fromEvent(event: Event): StoreEvent {
  const kv = event.kv === undefined ? missing("event without a key") : fromKeyValue(event.kv);
  const type = event.type === DELETED ? "delete" : "put";
  return event.prevKv === undefined ? { type, kv } : { type, kv, prevKv: fromKeyValue(event.prevKv) };
}

export function revisionOf(header: ResponseHeader | undefined): number {
  return header === undefined ? missing("answer without a header") : Number(header.revision);
}

const results = {
  equal: 0,
  greater: 1,
  less: 2,
  notEqual: 3,
} as const;

function toCompare(item: PortCompare): Init<typeof CompareSchema> {
  const common = { key: item.key, rangeEnd: item.end ?? EMPTY, result: results[item.result] };
  const number = (value: number): bigint => BigInt(value);
  switch (item.target) {
    case "version":
      return {
        ...common,
        target: targets.version,
        targetUnion: { case: "version", value: number(item.version) },
      };
    case "createRevision":
      return {
        ...common,
        target: targets.createRevision,
        targetUnion: { case: "createRevision", value: number(item.createRevision) },
      };
    case "modRevision":
      return {
        ...common,
        target: targets.modRevision,
        targetUnion: { case: "modRevision", value: number(item.modRevision) },
      };
    case "value":
      return {
        ...common,
        target: targets.value,
        targetUnion: { case: "value", value: item.value },
      };
    case "lease":
      return {
        ...common,
        target: targets.lease,
        targetUnion: { case: "lease", value: item.lease },
      };
  }
}

function toOp(op: Op): Init<typeof RequestOpSchema> {
  switch (op.type) {
    case "range":
      return { request: { case: "requestRange", value: toRange(op) } };
    case "put":
      return {
        request: {
          case: "requestPut",
          value: {
            key: op.key,
            value: op.value,
            lease: op.lease ?? 0n,
            prevKv: op.prevKv ?? false,
            ignoreValue: op.ignoreValue ?? false,
            ignoreLease: op.ignoreLease ?? false,
          },
        },
      };
    case "delete":
      return {
        request: {
          case: "requestDeleteRange",
          value: { key: op.key, rangeEnd: op.end ?? EMPTY, prevKv: op.prevKv ?? false },
        },
      };
    case "txn":
      return { request: { case: "requestTxn", value: toTxn(op) } };
  }
}

function fromOp({ response }: ResponseOp, revision: number): OpResponse {
  switch (response.case) {
    case "responseRange":
      return {
        type: "range",
        kvs: response.value.kvs.map(fromKeyValue),
        more: response.value.more,
        count: Number(response.value.count),
        revision: response.value.header === undefined ? revision : Number(response.value.header.revision),
      };
    case "responsePut": {
      const { prevKv } = response.value;
      return prevKv === undefined ? { type: "put" } : { type: "put", prevKv: fromKeyValue(prevKv) };
    }
    case "responseDeleteRange":
      return {
        type: "delete",
        deleted: Number(response.value.deleted),
        prevKvs: response.value.prevKvs.map(fromKeyValue),
      };
    case "responseTxn":
      return { type: "txn", ...fromTxn(response.value, revision) };
    case undefined:
      return { type: "txn", ...fromTxn(create(TxnResponseSchema), revision) };
  }
}

function fromKeyValue(kv: KeyValue): PortKeyValue {
  return {
    key: kv.key,
    value: kv.value,
    createRevision: Number(kv.createRevision),
    modRevision: Number(kv.modRevision),
    version: Number(kv.version),
    lease: kv.lease,
  };
}

function missing(what: string): never {
  throw new TypeError(`etcd sent an ${what}`);
}
