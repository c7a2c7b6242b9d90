import type { SealedItems } from "../application/v1/sealed-items.ts";

/** For tests that are not about secrets. */
export const plainItems: Pick<SealedItems, "seal" | "open"> = { seal: (item) => item, open: (item) => item };
