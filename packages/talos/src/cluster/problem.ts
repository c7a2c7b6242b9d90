// Something wrong in cluster.yaml, at a place of it.

export interface Problem {
  /** Keys and positions from the root. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}
