import type { IncomingMessage, ServerResponse } from "node:http";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { problemOf } from "@gpve/contracts/v1/problem.ts";
import type { V1Route } from "@gpve/contracts/v1/routes.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { AccessEpoch } from "../../application/v1/access-epoch.ts";
import { parseSelection } from "../../application/v1/object-service.ts";
import type { ObjectService } from "../../application/v1/object-service.ts";
import { watchObjects } from "../../application/v1/watch-objects.ts";
import type { Credentials } from "../../application/access/authenticator.ts";
import type { V1Deps } from "./ports.ts";
import { sendEvents } from "./send-events.ts";

export interface WatchParts {
  readonly deps: V1Deps;
  readonly service: ObjectService;
  readonly epoch: AccessEpoch;
  readonly credentials: Credentials;
}

export async function watchOperation(
  parts: WatchParts,
  call: {
    readonly route: V1Route;
    readonly query: Readonly<Record<string, string>>;
    readonly ctx: RequestContext;
    readonly req: IncomingMessage;
    readonly res: ServerResponse;
  },
): Promise<void> {
  const { deps, service, epoch } = parts;
  const { history } = deps;
  const { ctx, query } = call;
  const cache = service.cache(call.route.kind?.kind ?? "");
  if (query["limit"] !== undefined || query["continue"] !== undefined) {
    throw new AppError("request.invalid", "a watch has no pages: leave out limit and continue");
  }
  const selection = parseSelection(cache.adapter, query);
  const lastEvent = call.req.headers["last-event-id"];
  const from = versionOf(
    typeof lastEvent === "string" && lastEvent !== "" ? lastEvent : query["resourceVersion"],
  );
  const items = watchObjects(
    {
      records: deps.records,
      clock: deps.clock,
      cache,
      past: (revision, signal) => history(cache.adapter, revision, signal),
      accessEpoch: () => epoch.current(),
      onAccessChange: (listener) => epoch.onChange(listener),
      revalidate: async () => {
        const { actor } = await deps.authenticate(parts.credentials);
        if (actor === undefined || actor.authid !== ctx.actor?.authid) {
          throw new AppError("auth.required", "the credentials of this watch are no longer valid");
        }
        return deps.accessOf(actor);
      },
    },
    { selection, ctx, ...given({ from }) },
  );
  call.req.resume();
  await sendEvents(call.res, items, { "X-Request-Id": ctx.requestId }, (err) =>
    problemOf(err, ctx.requestId),
  );
}

/** "0" and nothing mean: from the beginning. What an object or a list said is fine, whatever follows a dash. */
function versionOf(text: string | undefined): number | undefined {
  if (text === undefined || text === "" || text === "0") return undefined;
  const match = /^(\d{1,15})(-\d+)?$/.exec(text);
  if (match === null) {
    throw new AppError("request.invalid", "resourceVersion is not one this server gave", {
      errors: { resourceVersion: "is not a version" },
    });
  }
  return Number(match[1]);
}
