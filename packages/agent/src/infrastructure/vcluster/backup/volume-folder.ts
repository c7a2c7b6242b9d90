/** Where a worker's volumes are. */
export interface VolumeFolder {
  readonly vnode: string;
  /** What `member` is relative to. */
  readonly folder: string;
  readonly member: string;
  readonly names: readonly string[];
}
