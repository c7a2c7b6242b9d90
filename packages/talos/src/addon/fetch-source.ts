// Where an add-on's bytes come from: a folder without a network first, then a file, else its address or the mirror of it.
import { readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { AddonSource } from "./addon-kind.ts";

export type FetchBytes = (url: string) => Promise<Uint8Array>;

export interface Fetched {
  readonly source: string;
  readonly bytes: Uint8Array;
}

const MOST_BYTES = 64 * 1024 * 1024;
const TIMEOUT_MS = 60_000;

export interface SourceRequest {
  readonly name: string;
  readonly version: string;
  readonly source: AddonSource;
  readonly addons: Cluster["addons"];
  /** Where paths of the file are relative to. */
  readonly folder: string;
  readonly fetch: FetchBytes;
}

export async function fetchSource(request: SourceRequest): Promise<Fetched> {
  const { name, version, source, addons, folder } = request;
  const from = source.from.replaceAll("{version}", version);
  if (addons.offlineDir !== null && isAddress(from)) {
    const path = join(addons.offlineDir, `${name}-${version}${source.kind === "chart" ? ".tgz" : ".yaml"}`);
    return { source: path, bytes: readLocal(name, absolute(folder, path)) };
  }
  if (!isAddress(from)) return { source: from, bytes: readLocal(name, absolute(folder, from)) };
  const url = mirrored(from, addons.mirrors);
  try {
    return { source: url, bytes: await request.fetch(url) };
  } catch (err) {
    throw unreachable(name, url, err);
  }
}

const isAddress = (from: string): boolean => /^https?:\/\//.test(from);
const absolute = (folder: string, path: string): string => (isAbsolute(path) ? path : join(folder, path));

/** The longest beginning that a mirror is given for. */
function mirrored(url: string, mirrors: Readonly<Record<string, string>>): string {
  const [best] = Object.keys(mirrors)
    .filter((prefix) => url.startsWith(prefix))
    .toSorted((a, b) => b.length - a.length);
  return best === undefined ? url : `${mirrors[best] ?? ""}${url.slice(best.length)}`;
}

function readLocal(name: string, path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (err) {
    throw unreachable(name, path, err);
  }
}

function unreachable(name: string, source: string, cause: unknown): AppError {
  return new AppError("node.unavailable", `${name} cannot be fetched from ${source}: ${messageOf(cause)}`, {
    cause,
    data: { finding: "addon-unreachable" },
  });
}

/** Over HTTP, no larger than an add-on can be. */
export const fetchBytes: FetchBytes = async (url) => {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) throw new AppError("node.unavailable", `status ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes.length > MOST_BYTES) throw new AppError("request.invalid", "it is larger than 64 MiB");
  return bytes;
};
