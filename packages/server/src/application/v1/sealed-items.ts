// What is applied is in the journal of its operation for as long as that is kept, and in whatever copies the store: the
// secrets of it are sealed there, and opened by the step that needs them.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { Sealer } from "@gpve/domain/access/ports.ts";
import type { KindAdapter } from "./adapter.ts";
import { secretFields } from "./secret-fields.ts";

/** In place of a secret. */
interface Sealed {
  readonly sealed: string;
}

interface Item {
  readonly kind: string;
  readonly name: string;
  readonly spec: Fields;
}

export class SealedItems {
  readonly #sealer: Sealer;
  readonly #secrets: ReadonlyMap<string, ReadonlySet<string>>;

  constructor(sealer: Sealer, adapters: readonly KindAdapter[]) {
    this.#sealer = sealer;
    this.#secrets = new Map(
      adapters.map(({ kind, act }) => [
        kind.kind,
        new Set([...secretFields(kind.spec, "spec"), ...(act?.secrets ?? [])]),
      ]),
    );
  }

  seal<T extends Item>(item: T): T {
    return this.#changed(item, (value, context): Sealed => ({
      sealed: this.#sealer.seal(JSON.stringify(value), context),
    }));
  }

  open<T extends Item>(item: T): T {
    return this.#changed(item, (value, context) =>
      // What an earlier version wrote is not sealed.
      isSealed(value) ? (JSON.parse(this.#sealer.open(value.sealed, context)) as unknown) : value,
    );
  }

  #changed<T extends Item>(item: T, change: (value: unknown, context: string) => unknown): T {
    const paths = this.#secrets.get(item.kind);
    if (paths === undefined)
      throw new AppError("feature.unsupported", `this server does not serve ${item.kind} objects`);
    let spec: unknown = item.spec;
    for (const path of paths) {
      const context = `apply/${item.kind}/${item.name}/${path}`;
      spec = changedAt(spec, path.split(".").slice(1), (value) => change(value, context));
    }
    return { ...item, spec: spec as Fields };
  }
}

function changedAt(value: unknown, path: readonly string[], change: (value: unknown) => unknown): unknown {
  const [field, ...rest] = path;
  if (field === undefined) return change(value);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const fields = value as Fields;
  if (fields[field] === undefined) return value;
  return { ...fields, [field]: changedAt(fields[field], rest, change) };
}

function isSealed(value: unknown): value is Sealed {
  return typeof value === "object" && value !== null && typeof (value as Partial<Sealed>).sealed === "string";
}
