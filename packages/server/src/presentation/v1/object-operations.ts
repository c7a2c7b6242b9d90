import { given } from "@gpve/contracts/given.ts";
import type { KindDeclaration, Verb } from "@gpve/contracts/v1/kind.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import { V1_PREFIX } from "@gpve/contracts/v1/routes.ts";
import { parseSelection } from "../../application/v1/object-service.ts";
import type { ObjectService } from "../../application/v1/object-service.ts";
import type { WriteOutcome } from "../../application/v1/write-object.ts";
import type { Call, Reply } from "./call.ts";
import { listJson, objectJson, ReadyJson } from "./object-json.ts";

/** The verbs of a kind. */
export async function objectOperation(
  service: ObjectService,
  kind: KindDeclaration,
  verb: Verb,
  call: Call,
): Promise<Reply> {
  const { ctx, query, body, once } = call;
  const name = call.params["name"] ?? "";
  switch (verb) {
    case "list":
    case "watch":
      return {
        body: new ReadyJson(
          listJson(
            await service.list(
              kind.kind,
              {
                ...parseSelection(service.cache(kind.kind).adapter, query),
                limit: Number(query["limit"] ?? 0),
                ...given({ continue: query["continue"] }),
              },
              ctx,
            ),
          ),
        ),
      };
    case "get":
      return { body: new ReadyJson(objectJson(await service.get(kind.kind, name, ctx))) };
    case "create": {
      const outcome = await service.create(kind.kind, body, ctx, once);
      const location = locationOf(kind, outcome.object.metadata);
      const waits = query["wait"] === "1" || query["wait"] === "true";
      const cache = service.cache(kind.kind);
      const { act } = cache.adapter;
      if (!waits || act?.ready === undefined) return changed(outcome, { Location: location });
      const created = cache.idFor(outcome.object.metadata);
      const more = await act.ready(created, ctx);
      const object = { ...(await service.get(kind.kind, created, ctx)), ...more };
      return changed({ ...outcome, object }, { Location: location });
    }
    case "replace":
      return changed(await service.replace(kind.kind, name, body, ctx, once));
    case "patch":
      return changed(await service.patch(kind.kind, name, body, ctx, once));
    case "delete": {
      const { resourceVersion, force } = query;
      const options = { resourceVersion, force: force === "1" || force === "true", called: call.called };
      return changed(await service.remove(kind.kind, name, options, ctx, once));
    }
  }
}

/** Where it is the only one that is meant. */
function locationOf(
  { plural, namesInTenant }: KindDeclaration,
  { name, namespace }: V1Object["metadata"],
): string {
  const isBelow = namesInTenant === true && namespace !== undefined;
  const tenant = isBelow ? `/tenants/${encodeURIComponent(namespace)}` : "";
  return `${V1_PREFIX}${tenant}/${plural}/${encodeURIComponent(name)}`;
}

function changed(outcome: WriteOutcome, headers: Readonly<Record<string, string>> = {}): Reply {
  return {
    body: outcome.object,
    headers: { ...headers, ...(outcome.replayed ? { "Idempotency-Replayed": "true" } : {}) },
  };
}
