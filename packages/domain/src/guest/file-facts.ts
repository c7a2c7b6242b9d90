// What use cases ask about files of the host without reading them.

export interface FileFacts {
  exists(path: string): boolean;
  /** undefined when there is none. */
  bytes(path: string): number | undefined;
  isExecutable(path: string): boolean;
}
