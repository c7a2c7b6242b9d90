import { given } from "@gpve/contracts/given.ts";
import type { Bytes, KeyValue, Store } from "./port.ts";
import { keyAfter } from "./keys.ts";

const PAGE = 1_000;

/** Reads a whole range in pages, all at one revision, the newest or the one given; returns that revision. */
export async function readAll(
  store: Store,
  span: { readonly key: Bytes; readonly end: Bytes },
  signal: AbortSignal | undefined,
  onPage: (kvs: readonly KeyValue[]) => void | Promise<void>,
  at?: number,
): Promise<number> {
  const options = signal === undefined ? {} : { signal };
  const first = await store.range({ ...span, limit: PAGE, ...given({ revision: at }) }, options);
  const revision = at ?? first.revision;
  await onPage(first.kvs);
  let page = first;
  for (let last = page.kvs.at(-1); page.more && last !== undefined; last = page.kvs.at(-1)) {
    page = await store.range({ key: keyAfter(last.key), end: span.end, limit: PAGE, revision }, options);
    await onPage(page.kvs);
  }
  return revision;
}
