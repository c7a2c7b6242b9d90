// etcd's transactions as the Store's, and the Store's answers as etcd's.
import { Code, ConnectError } from "@connectrpc/connect";
import type { Init } from "./message-init.ts";
import type {
  Compare as EtcdCompare,
  DeleteRangeRequest,
  KeyValueSchema,
  PutRequest,
  RangeResponseSchema,
  RequestOp,
  ResponseOpSchema,
  TxnRequest as EtcdTxn,
} from "../gen/proto/etcdserverpb/rpc_pb.ts";
import type {
  Bytes,
  Compare,
  CompareResult,
  KeyValue,
  Op,
  OpResponse,
  RangeResponse,
  TxnRequest,
  TxnResponse,
} from "../port.ts";
import { refusal } from "../refusals.ts";
import { type RangePlan, endOf, planRange } from "./range-plan.ts";

/** What becomes of an operation's answer; for a nested transaction by its branches. */
type Finish =
  | { readonly type: "plain" }
  | { readonly type: "range"; readonly plan: RangePlan }
  | { readonly type: "txn"; readonly success: readonly Finish[]; readonly failure: readonly Finish[] };

export interface TxnPlan {
  readonly request: TxnRequest;
  readonly finish: Finish & { type: "txn" };
}

export function planTxn(etcd: EtcdTxn): TxnPlan {
  const compare = etcd.compare.map(fromCompare);
  const success = etcd.success.map(planOp);
  const failure = etcd.failure.map(planOp);
  return {
    request: { compare, success: success.map(({ op }) => op), failure: failure.map(({ op }) => op) },
    finish: {
      type: "txn",
      success: success.map(({ finish }) => finish),
      failure: failure.map(({ finish }) => finish),
    },
  };
}

export function fromPut({ key, value, lease, prevKv, ignoreValue, ignoreLease }: PutRequest): Op {
  return { type: "put", key, value, lease, prevKv, ignoreValue, ignoreLease };
}

export function fromDelete({ key, rangeEnd, prevKv }: DeleteRangeRequest): Op {
  return { type: "delete", key, prevKv, ...endOf(rangeEnd) };
}

function planOp({ request }: RequestOp): { op: Op; finish: Finish } {
  switch (request.case) {
    case "requestRange": {
      const plan = planRange(request.value);
      return { op: { type: "range", ...plan.request }, finish: { type: "range", plan } };
    }
    case "requestPut":
      return { op: fromPut(request.value), finish: { type: "plain" } };
    case "requestDeleteRange":
      return { op: fromDelete(request.value), finish: { type: "plain" } };
    case "requestTxn": {
      const nested = planTxn(request.value);
      return { op: { type: "txn", ...nested.request }, finish: nested.finish };
    }
    case undefined:
      throw refusal("noKey", "an operation of the transaction is empty");
  }
}

const results: readonly CompareResult[] = ["equal", "greater", "less", "notEqual"];
const EMPTY: Bytes = new Uint8Array(0);

/** The target names what is compared; a union that holds something else, or nothing, counts as zero. */
function fromCompare({ key, rangeEnd, result: wanted, target, targetUnion: union }: EtcdCompare): Compare {
  const result = results[wanted];
  if (result === undefined) throw new ConnectError("unknown comparison", Code.InvalidArgument);
  const common = { key, result, ...endOf(rangeEnd) };
  switch (target) {
    case 0:
      return { ...common, target: "version", version: union.case === "version" ? Number(union.value) : 0 };
    case 1: {
      const createRevision = union.case === "createRevision" ? Number(union.value) : 0;
      return { ...common, target: "createRevision", createRevision };
    }
    case 2: {
      const modRevision = union.case === "modRevision" ? Number(union.value) : 0;
      return { ...common, target: "modRevision", modRevision };
    }
    case 3:
      return { ...common, target: "value", value: union.case === "value" ? union.value : EMPTY };
    case 4:
      return { ...common, target: "lease", lease: union.case === "lease" ? union.value : 0n };
    default:
      throw new ConnectError("unknown target of a comparison", Code.InvalidArgument);
  }
}

type ResponseInit = Init<typeof ResponseOpSchema>;

/** Where a transaction stands while its answers are written: etcd tells each with the revision of its moment. */
interface Moment {
  readonly before: number;
  changed: boolean;
}

export function toTxnAnswer(
  done: TxnResponse,
  finish: Finish & { type: "txn" },
): { succeeded: boolean; responses: ResponseInit[] } {
  const moment = { before: done.revision - (changes(done.responses) ? 1 : 0), changed: false };
  return answerTxn(done, finish, moment);
}

function answerTxn(
  { succeeded, responses }: TxnResponse,
  { success, failure }: Finish & { type: "txn" },
  moment: Moment,
): { succeeded: boolean; responses: ResponseInit[] } {
  const branch = succeeded ? success : failure;
  return { succeeded, responses: responses.map((op, index) => answerOp(op, branch[index], moment)) };
}

function answerOp(op: OpResponse, finish: Finish | undefined, moment: Moment): ResponseInit {
  switch (op.type) {
    case "range": {
      const found = finish?.type === "range" ? finish.plan.finish(op) : op;
      const value = { ...toRangeAnswer(found), header: { revision: BigInt(op.revision) } };
      return { response: { case: "responseRange", value } };
    }
    case "put": {
      moment.changed = true;
      const value = { header: headerAt(moment), ...previous(op.prevKv) };
      return { response: { case: "responsePut", value } };
    }
    case "delete": {
      moment.changed ||= op.deleted > 0;
      const prevKvs = op.prevKvs.map(toKeyValue);
      const value = { header: headerAt(moment), deleted: BigInt(op.deleted), prevKvs };
      return { response: { case: "responseDeleteRange", value } };
    }
    case "txn": {
      const nested = finish?.type === "txn" ? finish : ({ type: "txn", success: [], failure: [] } as const);
      return { response: { case: "responseTxn", value: { header: {}, ...answerTxn(op, nested, moment) } } };
    }
  }
}

function changes(responses: readonly OpResponse[]): boolean {
  return responses.some(
    (op) =>
      op.type === "put" ||
      (op.type === "delete" && op.deleted > 0) ||
      (op.type === "txn" && changes(op.responses)),
  );
}

function headerAt({ before, changed }: Moment): { revision: bigint } {
  return { revision: BigInt(changed ? before + 1 : before) };
}

export function previous(kv: KeyValue | undefined): { prevKv?: Init<typeof KeyValueSchema> } {
  return kv === undefined ? {} : { prevKv: toKeyValue(kv) };
}

export function toRangeAnswer(found: RangeResponse): Init<typeof RangeResponseSchema> {
  return { kvs: found.kvs.map(toKeyValue), more: found.more, count: BigInt(found.count) };
}

export function toKeyValue(kv: KeyValue): Init<typeof KeyValueSchema> {
  return {
    key: kv.key,
    value: kv.value,
    createRevision: BigInt(kv.createRevision),
    modRevision: BigInt(kv.modRevision),
    version: BigInt(kv.version),
    lease: kv.lease,
  };
}
