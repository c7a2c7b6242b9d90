import { AppError } from "@gpve/contracts/errors.ts";
import type { OperationRecord } from "./record.ts";

interface Identified {
  readonly actor: string;
  readonly requestId?: string;
  readonly type: string;
  readonly resources: readonly string[];
  readonly args: unknown;
}

/** Remembers which request id of which actor became which operation, as long as the operation is kept. */
export class RequestIds {
  readonly #known = new Map<string, { readonly content: string; readonly id: Promise<string> }>();

  load(records: readonly OperationRecord[]): void {
    this.#known.clear();
    for (const record of records) {
      const key = keyOf(record);
      if (key !== undefined)
        this.#known.set(key, { content: contentOf(record), id: Promise.resolve(record.id) });
    }
  }

  /** The operation this request already made. Throws when the id was used for something else. */
  find(request: Identified): Promise<string> | undefined {
    const key = keyOf(request);
    const known = key === undefined ? undefined : this.#known.get(key);
    if (known === undefined) return undefined;
    if (known.content !== contentOf(request))
      throw new AppError(
        "object.conflict",
        `request id '${request.requestId}' was already used for another request`,
      );
    return known.id;
  }

  /** While it is being submitted, the same request waits for the same answer. A failed one is forgotten. */
  pending(request: Identified, accepted: Promise<{ readonly id: string }>): void {
    const key = keyOf(request);
    if (key === undefined) return;
    const id = accepted.then((operation) => operation.id);
    this.#known.set(key, { content: contentOf(request), id });
    id.catch(() => this.#known.delete(key));
  }

  forget(record: OperationRecord): void {
    const key = keyOf(record);
    if (key !== undefined) this.#known.delete(key);
  }
}

function keyOf(request: Pick<Identified, "actor" | "requestId">): string | undefined {
  return request.requestId === undefined ? undefined : `${request.actor}\0${request.requestId}`;
}

function contentOf({ type, resources, args }: Identified): string {
  return canonical({ type, resources: [...new Set(resources)].toSorted(), args });
}

/** JSON with sorted keys: the same content gives the same text. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}
