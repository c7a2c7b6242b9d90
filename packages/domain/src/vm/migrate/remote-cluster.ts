// Another cluster, as a VM that leaves this one needs it: PVE's own methods and nothing else.
import { given } from "@gpve/contracts/given.ts";
import type { MovePeer } from "../../guest/move-channel.ts";
import type { RemoteEndpoint } from "./remote-move.ts";

export interface RemoteCluster {
  /** The answer's data. Throws what the other side said. */
  call(method: string, path: string, params?: Readonly<Record<string, string>>): Promise<unknown>;
  /** Puts a file into a storage of the node that answers; resolves to the task there. */
  upload(
    storage: string,
    file: { readonly name: string; readonly size: number; readonly body: AsyncIterable<Uint8Array> },
    work: { readonly progress: (fraction: number) => void; readonly bytesPerSecond?: number | undefined },
  ): Promise<string>;
  /** The line that a running VM is sent by, where `mtunnel` has offered one. */
  peer(vmid: number, tunnel: RemoteTunnel, signal: AbortSignal): Promise<RemotePeer>;
}

/** What `POST …/mtunnel` answers. */
export interface RemoteTunnel {
  /** The task there: it ends well if and only if the VM has gone on there. */
  readonly upid: string;
  readonly socket: string;
  /** Secret. */
  readonly ticket: string;
}

/** A running VM as its new QEMU must be. */
export interface RemoteOffer {
  readonly machine?: string;
  readonly cpu?: string;
  /** It stands still, and is to do so there. */
  readonly isPaused: boolean;
  /** One that runs on is the same, and must find there what it has here, or has not. Nobody but root sets it in requests. */
  readonly vmgenid?: string;
  /** Keys of the disks whose blocks come while it runs. */
  readonly disks: readonly string[];
}

export interface RemotePeer extends Pick<MovePeer, "forward" | "lost" | "close"> {
  /** Its QEMU there waits for what is sent now. */
  start(offer: RemoteOffer, signal: AbortSignal): Promise<void>;
  /** It goes on there. Rejects also where only the answer was lost: the task there knows. */
  commit(): Promise<void>;
}

const GENERATION = /^(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[01])$/;

export type ReachCluster = (endpoint: RemoteEndpoint, signal: AbortSignal) => RemoteCluster;

export function isRemoteTunnel(answer: unknown): answer is RemoteTunnel {
  const { upid, socket, ticket } = (answer ?? {}) as Partial<RemoteTunnel>;
  return typeof upid === "string" && typeof socket === "string" && typeof ticket === "string";
}

export function decodeRemoteOffer(json: unknown): RemoteOffer | undefined {
  const { machine, cpu, vmgenid, isPaused, disks } = (json ?? {}) as Partial<RemoteOffer>;
  const isText = (value: unknown): boolean => value === undefined || typeof value === "string";
  if (typeof isPaused !== "boolean" || !isText(machine) || !isText(cpu)) return undefined;
  if (vmgenid !== undefined && !GENERATION.test(String(vmgenid))) return undefined;
  if (!Array.isArray(disks) || !disks.every((key) => typeof key === "string")) return undefined;
  return { isPaused, disks, ...given({ machine, cpu, vmgenid }) };
}
