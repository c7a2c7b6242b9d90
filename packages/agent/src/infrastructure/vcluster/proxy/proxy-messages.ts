// What agent and proxy tell each other: one JSON object on a line.
import type { FrontActivity, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { ElsewhereRoute } from "@gpve/domain/vcluster/cluster-places.ts";

export type ToProxy =
  | {
      readonly seq: number;
      readonly host: string;
      readonly routes: readonly FrontRoute[];
      /** Absent: as it was told last. */
      readonly elsewhere?: readonly ElsewhereRoute[];
    }
  | { readonly refuse: string };

export type FromProxy =
  | { readonly ack: number }
  | { readonly wake: string }
  | { readonly seen: Readonly<Record<string, FrontActivity>> };
