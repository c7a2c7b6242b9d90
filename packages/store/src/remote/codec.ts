// Store port types <-> the messages of gpve.agent.v1.StoreService. Pure.
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  CompareSchema,
  KeyValueSchema,
  OpResponseSchema,
  OpSchema,
  RangeRequestSchema,
  RangeResponseSchema,
  StoreEventSchema,
  TxnRequestSchema,
  TxnResponseSchema,
  WatchResponseSchema,
  type Compare as WireCompare,
  type KeyValue as WireKeyValue,
  type Op as WireOp,
  type OpResponse as WireOpResponse,
  type RangeRequest as WireRangeRequest,
  type RangeResponse as WireRangeResponse,
  type TxnRequest as WireTxnRequest,
  type TxnResponse as WireTxnResponse,
  type WatchResponse as WireWatchResponse,
} from "@gpve/contracts/gen/proto/gpve/agent/v1/store_pb.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type {
  Compare,
  CompareResult,
  KeyValue,
  Op,
  OpResponse,
  RangeRequest,
  RangeResponse,
  TxnRequest,
  TxnResponse,
  WatchBatch,
} from "../port.ts";

export function encodeKeyValue(kv: KeyValue): WireKeyValue {
  return create(KeyValueSchema, {
    key: kv.key,
    value: kv.value,
    createRevision: BigInt(kv.createRevision),
    modRevision: BigInt(kv.modRevision),
    version: BigInt(kv.version),
    lease: kv.lease,
  });
}

export function decodeKeyValue(kv: WireKeyValue): KeyValue {
  return {
    key: kv.key,
    value: kv.value,
    createRevision: Number(kv.createRevision),
    modRevision: Number(kv.modRevision),
    version: Number(kv.version),
    lease: kv.lease,
  };
}

export function encodeRange(request: RangeRequest): WireRangeRequest {
  const init: MessageInitShape<typeof RangeRequestSchema> = {
    key: request.key,
    keysOnly: request.keysOnly ?? false,
    countOnly: request.countOnly ?? false,
    descending: request.descending ?? false,
  };
  if (request.end !== undefined) init.end = request.end;
  if (request.limit !== undefined) init.limit = BigInt(request.limit);
  if (request.revision !== undefined) init.revision = BigInt(request.revision);
  if (request.minModRevision !== undefined) init.minModRevision = BigInt(request.minModRevision);
  return create(RangeRequestSchema, init);
}

export function decodeRange(request: WireRangeRequest): RangeRequest {
  return {
    key: request.key,
    ...(request.end === undefined ? {} : { end: request.end }),
    ...(request.limit === undefined ? {} : { limit: Number(request.limit) }),
    ...(request.revision === undefined ? {} : { revision: Number(request.revision) }),
    ...(request.minModRevision === undefined ? {} : { minModRevision: Number(request.minModRevision) }),
    keysOnly: request.keysOnly,
    countOnly: request.countOnly,
    descending: request.descending,
  };
}

export function encodeRangeResponse(response: RangeResponse): WireRangeResponse {
  return create(RangeResponseSchema, {
    kvs: response.kvs.map(encodeKeyValue),
    more: response.more,
    count: BigInt(response.count),
    revision: BigInt(response.revision),
  });
}

export function decodeRangeResponse(response: WireRangeResponse): RangeResponse {
  return {
    kvs: response.kvs.map(decodeKeyValue),
    more: response.more,
    count: Number(response.count),
    revision: Number(response.revision),
  };
}

export function encodeCompare(compare: Compare): WireCompare {
  const target = ((): WireCompare["target"] => {
    switch (compare.target) {
      case "version":
        return { case: "version", value: BigInt(compare.version) };
      case "createRevision":
        return { case: "createRevision", value: BigInt(compare.createRevision) };
      case "modRevision":
        return { case: "modRevision", value: BigInt(compare.modRevision) };
      case "value":
        return { case: "value", value: compare.value as Uint8Array<ArrayBuffer> };
      case "lease":
        return { case: "lease", value: compare.lease };
    }
  })();
  return create(CompareSchema, {
    key: compare.key,
    result: compare.result,
    target,
    ...(compare.end === undefined ? {} : { end: compare.end }),
  });
}

export function decodeCompare(wire: WireCompare): Compare {
  const base = {
    key: wire.key,
    result: asResult(wire.result),
    ...(wire.end === undefined ? {} : { end: wire.end }),
  };
  switch (wire.target.case) {
    case "version":
      return { ...base, target: "version", version: Number(wire.target.value) };
    case "createRevision":
      return { ...base, target: "createRevision", createRevision: Number(wire.target.value) };
    case "modRevision":
      return { ...base, target: "modRevision", modRevision: Number(wire.target.value) };
    case "value":
      return { ...base, target: "value", value: wire.target.value };
    case "lease":
      return { ...base, target: "lease", lease: wire.target.value };
    case undefined:
      throw malformed("comparison without a target");
  }
}

export function encodeOp(op: Op): WireOp {
  switch (op.type) {
    case "range":
      return create(OpSchema, { op: { case: "range", value: encodeRange(op) } });
    case "put":
      return create(OpSchema, {
        op: {
          case: "put",
          value: {
            key: op.key,
            value: op.value,
            prevKv: op.prevKv ?? false,
            ignoreValue: op.ignoreValue ?? false,
            ignoreLease: op.ignoreLease ?? false,
            ...(op.lease === undefined ? {} : { lease: op.lease }),
          },
        },
      });
    case "delete":
      return create(OpSchema, {
        op: {
          case: "delete",
          value: {
            key: op.key,
            prevKv: op.prevKv ?? false,
            ...(op.end === undefined ? {} : { end: op.end }),
          },
        },
      });
    case "txn":
      return create(OpSchema, { op: { case: "txn", value: encodeTxn(op) } });
  }
}

export function decodeOp(wire: WireOp): Op {
  switch (wire.op.case) {
    case "range":
      return { type: "range", ...decodeRange(wire.op.value) };
    case "put": {
      const put = wire.op.value;
      return {
        type: "put",
        key: put.key,
        value: put.value,
        prevKv: put.prevKv,
        ignoreValue: put.ignoreValue,
        ignoreLease: put.ignoreLease,
        ...(put.lease === undefined ? {} : { lease: put.lease }),
      };
    }
    case "delete": {
      const del = wire.op.value;
      return {
        type: "delete",
        key: del.key,
        prevKv: del.prevKv,
        ...(del.end === undefined ? {} : { end: del.end }),
      };
    }
    case "txn":
      return { type: "txn", ...decodeTxn(wire.op.value) };
    case undefined:
      throw malformed("operation without a kind");
  }
}

export function encodeTxn(request: TxnRequest): WireTxnRequest {
  return create(TxnRequestSchema, {
    compare: request.compare.map(encodeCompare),
    success: request.success.map(encodeOp),
    failure: (request.failure ?? []).map(encodeOp),
  });
}

export function decodeTxn(wire: WireTxnRequest): TxnRequest {
  return {
    compare: wire.compare.map(decodeCompare),
    success: wire.success.map(decodeOp),
    failure: wire.failure.map(decodeOp),
  };
}

export function encodeTxnResponse(response: TxnResponse): WireTxnResponse {
  return create(TxnResponseSchema, {
    succeeded: response.succeeded,
    revision: BigInt(response.revision),
    responses: response.responses.map(encodeOpResponse),
  });
}

export function decodeTxnResponse(wire: WireTxnResponse): TxnResponse {
  return {
    succeeded: wire.succeeded,
    revision: Number(wire.revision),
    responses: wire.responses.map(decodeOpResponse),
  };
}

function encodeOpResponse(response: OpResponse): WireOpResponse {
  switch (response.type) {
    case "range":
      return create(OpResponseSchema, { response: { case: "range", value: encodeRangeResponse(response) } });
    case "put":
      return create(OpResponseSchema, {
        response: {
          case: "put",
          value: response.prevKv === undefined ? {} : { prevKv: encodeKeyValue(response.prevKv) },
        },
      });
    case "delete":
      return create(OpResponseSchema, {
        response: {
          case: "delete",
          value: { deleted: BigInt(response.deleted), prevKvs: response.prevKvs.map(encodeKeyValue) },
        },
      });
    case "txn":
      return create(OpResponseSchema, { response: { case: "txn", value: encodeTxnResponse(response) } });
  }
}

function decodeOpResponse(wire: WireOpResponse): OpResponse {
  switch (wire.response.case) {
    case "range":
      return { type: "range", ...decodeRangeResponse(wire.response.value) };
    case "put": {
      const prev = wire.response.value.prevKv;
      return { type: "put", ...(prev === undefined ? {} : { prevKv: decodeKeyValue(prev) }) };
    }
    case "delete":
      return {
        type: "delete",
        deleted: Number(wire.response.value.deleted),
        prevKvs: wire.response.value.prevKvs.map(decodeKeyValue),
      };
    case "txn":
      return { type: "txn", ...decodeTxnResponse(wire.response.value) };
    case undefined:
      throw malformed("answer without a kind");
  }
}

export function encodeBatch(batch: WatchBatch): WireWatchResponse {
  switch (batch.type) {
    case "ready":
      return create(WatchResponseSchema, {
        revision: BigInt(batch.revision),
        batch: { case: "ready", value: {} },
      });
    case "progress":
      return create(WatchResponseSchema, {
        revision: BigInt(batch.revision),
        batch: { case: "progress", value: {} },
      });
    case "gap":
      return create(WatchResponseSchema, {
        revision: BigInt(batch.compactRevision),
        batch: { case: "gap", value: {} },
      });
    case "events":
      return create(WatchResponseSchema, {
        revision: BigInt(batch.revision),
        batch: {
          case: "events",
          value: {
            events: batch.events.map((event) =>
              create(StoreEventSchema, {
                deleted: event.type === "delete",
                kv: encodeKeyValue(event.kv),
                ...(event.prevKv === undefined ? {} : { prevKv: encodeKeyValue(event.prevKv) }),
              }),
            ),
          },
        },
      });
  }
}

export function decodeBatch(wire: WireWatchResponse): WatchBatch {
  const revision = Number(wire.revision);
  switch (wire.batch.case) {
    case "ready":
      return { type: "ready", revision };
    case "progress":
      return { type: "progress", revision };
    case "gap":
      return { type: "gap", compactRevision: revision };
    case "events":
      return {
        type: "events",
        revision,
        events: wire.batch.value.events.map((event) => {
          if (event.kv === undefined) throw malformed("event without a key");
          return {
            type: event.deleted ? "delete" : "put",
            kv: decodeKeyValue(event.kv),
            ...(event.prevKv === undefined ? {} : { prevKv: decodeKeyValue(event.prevKv) }),
          };
        }),
      };
    case undefined:
      throw malformed("watch message without a kind");
  }
}

function asResult(result: string): CompareResult {
  if (result === "equal" || result === "greater" || result === "less" || result === "notEqual") return result;
  throw malformed(`unknown comparison ${JSON.stringify(result)}`);
}

function malformed(what: string): AppError {
  return new AppError("request.invalid", `store message is malformed: ${what}`);
}
