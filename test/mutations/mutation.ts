// One way to break the product, and the tests that must notice.
export interface Mutation {
  readonly name: string;
  readonly file: string;
  /** There exactly once. */
  readonly find: string;
  readonly replace: string;
  /** What must fail. */
  readonly tests: readonly string[];
  readonly config?: "unit" | "integration";
  /** Run in every pass, not only in the long one. */
  readonly always?: boolean;
}
