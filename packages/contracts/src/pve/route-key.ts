import type { PveParams } from "../gen/pve-params.ts";

/** "GET /nodes/{node}/status" */
export type PveRouteKey = keyof PveParams;
