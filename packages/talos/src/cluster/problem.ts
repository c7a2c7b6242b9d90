// Something wrong in cluster.yaml, at a place of it.
import type { FindingId } from "../findings/catalogue.ts";

export interface Problem {
  readonly id: FindingId;
  /** Keys and positions from the root. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}
