// A watch on etcd that outlives connections: after a failure it goes on at another member from the first revision
// not yet delivered. etcd never splits a revision over two answers, so nothing is lost and nothing comes twice.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { StoreEvent, WatchBatch, WatchRequest, Watching } from "../port.ts";
import { type Endpoints, REQUIRE_LEADER } from "./endpoints.ts";
import { judge } from "./etcd-errors.ts";
import { fromEvent, revisionOf } from "./etcd-messages.ts";
import type { Endpoint } from "./link.ts";
import { ProgressQuestion } from "./progress-question.ts";
import type { WatchRequestSchema, WatchResponse } from "../gen/proto/etcdserverpb/rpc_pb.ts";

/** Whose an answer is that speaks of the whole line. */
const ALL_WATCHES = -1n;

export interface WatchDeps {
  readonly endpoints: Endpoints;
  readonly clock: Clock;
  /** A watch that finds no member for this long ends with an error. */
  readonly deadlineMs: number;
  /** How long a member may take to accept the watch. */
  readonly attemptMs: number;
}

interface Progress {
  /** First revision not yet delivered; undefined until the first member said what "now" is. */
  next: number | undefined;
  announced: boolean;
  lastHeard: number;
  readonly question: ProgressQuestion;
}

export function watchEtcd(deps: WatchDeps, request: WatchRequest): Watching {
  const progress: Progress = {
    next: request.startRevision,
    announced: false,
    lastHeard: deps.clock.monotonic(),
    question: new ProgressQuestion(deps.clock),
  };
  return {
    [Symbol.asyncIterator]: () => run(deps, request, progress),
    requestProgress: () => progress.question.ask(),
  };
}

async function* run(deps: WatchDeps, request: WatchRequest, progress: Progress): AsyncGenerator<WatchBatch> {
  const { endpoints, clock } = deps;
  const signal = AbortSignal.any([request.signal, endpoints.closed]);
  const failures = new Map<string, string>();
  while (!request.signal.aborted) {
    endpoints.closed.throwIfAborted();
    const endpoint = await endpoints.connected(failures, signal);
    if (endpoint !== undefined) {
      try {
        const ended = yield* follow(deps, endpoint, request, progress, signal);
        if (ended) return;
      } catch (err) {
        if (request.signal.aborted) return;
        endpoints.closed.throwIfAborted();
        if (err instanceof AppError) throw err;
        const failure = judge(err, request.signal);
        if (failure.type === "final") throw failure.error;
        failures.set(endpoint.url, failure.error.rawMessage);
      }
      endpoints.moveOnFrom(endpoint);
    }
    if (clock.monotonic() - progress.lastHeard > deps.deadlineMs)
      throw endpoints.unavailable("watch", failures);
    await clock.sleep(100, signal).catch(() => undefined);
  }
}

/** Follows the watch at one member. True when the watch is over for good. */
async function* follow(
  deps: WatchDeps,
  endpoint: Endpoint,
  request: WatchRequest,
  progress: Progress,
  signal: AbortSignal,
): AsyncGenerator<WatchBatch, boolean> {
  const over = new AbortController();
  const slow = deps.clock.after(deps.attemptMs, () =>
    over.abort(new Error("the watch was not accepted in time")),
  );
  const both = AbortSignal.any([signal, over.signal]);
  const requests = createThenAsk(request, progress, both);
  try {
    const responses = endpoint.watch.watch(requests, { signal: both, headers: REQUIRE_LEADER });
    for await (const response of responses) {
      if (request.signal.aborted) return true;
      progress.lastHeard = deps.clock.monotonic();
      slow();
      if (response.compactRevision > 0n) {
        if (!progress.announced) yield { type: "ready", revision: (progress.next ?? 1) - 1 };
        progress.announced = true;
        yield { type: "gap", compactRevision: Number(response.compactRevision) };
        return true;
      }
      if (response.canceled) throw cancelled(response.cancelReason);
      if (response.created) progress.next ??= revisionOf(response.header) + 1;
      if (!progress.announced) {
        progress.announced = true;
        yield { type: "ready", revision: (progress.next ?? 1) - 1 };
      }
      if (!response.created) yield* toBatches(response, progress);
      // The consumer may have taken its time: that is not the member's silence.
      progress.lastHeard = deps.clock.monotonic();
    }
    progress.lastHeard = deps.clock.monotonic();
    return false;
  } finally {
    slow();
    over.abort();
    progress.question.hangUp();
  }
}

function* toBatches(response: WatchResponse, progress: Progress): Generator<WatchBatch> {
  const next = progress.next ?? 0;
  const events: StoreEvent[] = [];
  for (const event of response.events) {
    const told = fromEvent(event);
    if (told.kv.modRevision >= next) events.push(told);
  }
  const { question } = progress;
  const revision = events.at(-1)?.kv.modRevision;
  if (revision !== undefined) {
    progress.next = revision + 1;
    yield { type: "events", revision, events };
    if (question.heard(revision)) yield { type: "progress", revision };
    return;
  }
  if (response.events.length > 0) return;
  const isAnswer = response.watchId === ALL_WATCHES;
  const reached = isAnswer ? question.answered(revisionOf(response.header)) : revisionOf(response.header);
  if (reached === undefined || (reached < next && !isAnswer)) return;
  progress.next = Math.max(next, reached + 1);
  yield { type: "progress", revision: reached };
}

/** A member that does not let us watch will not do so later. */
function cancelled(reason: string): Error {
  return reason.includes("permission denied")
    ? new AppError("access.denied", `the watch was refused: ${reason}`)
    : new Error(reason);
}

/** One request to begin with, then a line that stays open: closing it would end the watch. */
async function* createThenAsk(
  request: WatchRequest,
  progress: Progress,
  signal: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof WatchRequestSchema>> {
  yield {
    requestUnion: {
      case: "createRequest",
      value: {
        key: request.key,
        rangeEnd: request.end ?? new Uint8Array(0),
        startRevision: BigInt(progress.next ?? 0),
        prevKv: request.prevKv ?? false,
        progressNotify: request.progress ?? false,
      },
    },
  };
  while (await progress.question.due(signal)) yield { requestUnion: { case: "progressRequest", value: {} } };
}
