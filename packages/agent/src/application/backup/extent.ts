export interface Extent {
  readonly length: number;
  /** Known to read as zeroes. */
  readonly isZero: boolean;
}
