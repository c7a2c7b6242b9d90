// What is measured of virtual clusters, by part: each can be measured alone, and the page shows what was measured last.

export interface Circumstances {
  readonly date: string;
  readonly cores: number;
  readonly load: number;
  /** Of Kubernetes. */
  readonly version: string;
  readonly rounds: number;
}

export interface CreateFigures extends Circumstances {
  readonly etcdVersion: string;
  readonly oursMs: number;
  readonly bareMs: number;
  readonly ratio: number;
  readonly coldMs: number;
  readonly bareAgainMs: number;
  readonly coldRatio: number;
}

export interface SleepFigures extends Circumstances {
  readonly hotMiB: number;
  readonly warmMiB: number;
  readonly warmMs: number;
  readonly coldMs: number;
  /** Of the machine: what is warm is there, if anywhere. */
  readonly swapMiB: number;
}

export interface StoreFigures {
  readonly date: string;
  readonly etcdVersion: string;
  readonly rows: readonly {
    readonly clients: number;
    readonly ours: { readonly perSecond: number };
    readonly etcd: { readonly perSecond: number };
  }[];
  readonly idle: Readonly<
    Record<"ours" | "etcd", { readonly cpuPercent: number; readonly residentMiB: number }>
  >;
}

/** How the API answers. */
export interface Answers {
  /** Of all there are. */
  readonly list: Spread;
  /** A page of fifty of them. */
  readonly page: Spread;
  readonly one: Spread;
}

/** What a gpve takes of its machine, server and agent being one process. */
export interface Weight {
  readonly residentMiB: number;
  readonly cpuPercent: number;
  readonly descriptors: number;
  /** The processes that all clusters share. */
  readonly storeMiB: number;
  readonly storeCpuPercent: number;
  readonly proxyMiB: number;
  readonly proxyCpuPercent: number;
  readonly proxyDescriptors: number;
  /** Of the kernel, on the whole machine: what it cannot give back. */
  readonly kernelMiB: number;
  /** Network devices of the machine. */
  readonly devices: number;
}

export interface CrowdFigures extends Circumstances {
  readonly defined: number;
  readonly hot: number;
  readonly hotMsEach: number;
  readonly defineMsEach: number;
  /** Of the first hundred and of the last: one more is to cost what the first did. */
  readonly firstDefineMs: number;
  readonly lastDefineMs: number;
  /** Of a gpve with one cluster, in the same run. */
  readonly alone: Answers & { readonly wakeMs: number };
  readonly crowd: Answers & { readonly wakeMs: number };
  readonly kube: Spread;
  readonly firstWakeMs: number;
  readonly warmMs: number;
  /** Nothing defined; all defined and all but one cold; as many hot as said. */
  readonly empty: Weight;
  readonly cold: Weight;
  readonly busy: Weight;
  readonly hotMiB: number;
  readonly warmMiB: number;
}

/** Milliseconds. */
export interface Spread {
  readonly p50: number;
  readonly p99: number;
}

export interface Figures {
  readonly create?: CreateFigures;
  readonly sleep?: SleepFigures;
  readonly store?: StoreFigures;
  readonly crowd?: CrowdFigures;
}

export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number): number => sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
