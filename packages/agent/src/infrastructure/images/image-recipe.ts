// How an image is made here: what goes in, so that equal inputs are built once, and the steps.

export interface ImageRecipe {
  readonly name: string;
  /** Cheap to get, and equal only if the inputs are: saves asking for them. */
  stamp?(): string;
  /** Lines that change when, and only when, the image would. */
  inputs(): Promise<readonly string[]>;
  /** How what is built is named at the end; default: .qcow2. */
  readonly suffix?: string;
  /** Builds into `target`, a file or a folder, with `folder` as scratch space that is removed afterwards. */
  build(folder: string, target: string, say: (line: string) => void, signal?: AbortSignal): Promise<void>;
}
