import { given } from "@gpve/contracts/given.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import type { RequestContext } from "./context.ts";

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined };

/** A handler's answer when plain data is not enough. */
export class PveReply {
  readonly data: unknown;
  /** Row count of the whole list, shown as `total` when non-zero. */
  readonly total: number | undefined;
  readonly changes: string | undefined;
  /** Raw bytes instead of the envelope (task log download, screenshots). */
  readonly download: { contentType: string; fileName?: string; body: AsyncIterable<Uint8Array> } | undefined;
  /** Serialised JSON of `data`, kept ready by a cache; spares the stringify. */
  readonly rawJson: Uint8Array | string | undefined;
  /**
   * Whether the same request of the same user, whose permissions have not changed, would be answered with the very
   * same bytes. Asked before they are given again without calling the handler.
   */
  readonly sameWhile: (() => boolean) | undefined;

  constructor(reply: {
    data?: unknown;
    total?: number;
    changes?: string;
    download?: { contentType: string; fileName?: string; body: AsyncIterable<Uint8Array> };
    rawJson?: Uint8Array | string;
    sameWhile?: () => boolean;
  }) {
    this.data = reply.data;
    this.total = reply.total;
    this.changes = reply.changes;
    this.download = reply.download;
    this.rawJson = reply.rawJson;
    this.sameWhile = reply.sameWhile;
  }

  /** The same answer with other data. */
  withData(data: unknown): PveReply {
    return new PveReply({
      data,
      ...given({ total: this.total, changes: this.changes, download: this.download }),
    });
  }
}

/** One PVE method. Parameters are validated and typed when it runs; booleans are true/false here and 0/1 outside. */
export type PveHandler<K extends PveRouteKey> = (params: PveParams[K], ctx: RequestContext) => unknown;

/** What a module offers: route key -> handler. Undeclared keys do not compile. */
export type PveHandlers = { readonly [K in PveRouteKey]?: PveHandler<K> };
