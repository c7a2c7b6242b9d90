// One way to call the PVE API; REST and pvesh take the same paths and parameters.

export type Verb = "GET" | "POST" | "PUT" | "DELETE";
export type CallValues = Readonly<Record<string, string | number | boolean>>;

export interface PlatformCalls {
  /** Whoever calls may do everything: there is nothing to check. */
  readonly isRoot: boolean;
  read(path: string, values?: CallValues): Promise<unknown>;
  /** Resolves when the work is done; fails when its task does. */
  work(verb: Exclude<Verb, "GET">, path: string, values?: CallValues): Promise<void>;
  close(): void;
}
