// Every add-on that the file asks for, fetched, held to its lock and rendered. What cannot be is told, all at once.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { FindingId } from "../findings/catalogue.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";
import { error, type Finding } from "../preflight/finding-report.ts";
import { wantedAddons } from "./addon-catalogue.ts";
import type { AddonKind } from "./addon-kind.ts";
import { type AddonStore, sha256Of } from "./addon-store.ts";
import { type FetchBytes, fetchSource } from "./fetch-source.ts";
import { renderAddon } from "./render-addon.ts";

export interface PreparedAddon {
  readonly kind: AddonKind;
  readonly version: string;
  /** undefined: it is all ours. */
  readonly source: string | undefined;
  readonly digest: string;
  readonly objects: readonly KubernetesObject[];
}

export interface PrepareDeps {
  readonly cluster: Cluster;
  /** Where paths of the file are relative to. */
  readonly folder: string;
  readonly store: AddonStore;
  readonly exec: Exec;
  readonly now: () => number;
  /** undefined: only what was fetched before is used. */
  readonly fetch: FetchBytes | undefined;
  /** Those that a part of the work is about; all of them without. */
  readonly isMeant?: (kind: AddonKind) => boolean;
}

export interface Prepared {
  readonly addons: readonly PreparedAddon[];
  readonly findings: readonly Finding[];
}

export async function prepareAddons(deps: PrepareDeps): Promise<Prepared> {
  const tried = await Promise.all(
    wantedAddons(deps.cluster)
      .filter(deps.isMeant ?? (() => true))
      .map(async (kind) => {
        try {
          return await prepare(kind, deps);
        } catch (err) {
          if (!isAppError(err) || typeof err.data["finding"] !== "string") throw err;
          return error(err.data["finding"] as FindingId, kind.name, messageOf(err));
        }
      }),
  );
  return {
    addons: tried.filter((each): each is PreparedAddon => "digest" in each),
    findings: tried.filter((each): each is Finding => "severity" in each),
  };
}

async function prepare(kind: AddonKind, deps: PrepareDeps): Promise<PreparedAddon> {
  const held = await hold(kind, deps);
  const objects = await renderAddon(kind, held, deps);
  const digest = sha256Of(JSON.stringify(objects)).slice(0, 32);
  return { kind, version: held?.version ?? kind.version, source: held?.source, digest, objects };
}

interface Held {
  readonly kind: "manifest" | "chart";
  readonly version: string;
  readonly source: string;
  readonly bytes: Uint8Array;
}

/** By its lock, or locked now. A newer version in our catalogue changes nothing: only the file or `update` does. */
async function hold(kind: AddonKind, deps: PrepareDeps): Promise<Held | undefined> {
  const { cluster, folder, store, fetch, now } = deps;
  const { name } = kind;
  const { addons } = cluster;
  const source = ownSource(kind, addons);
  if (source === undefined) return undefined;
  const asked = addons.versions[name] ?? (name === "cilium" ? addons.cni.version : null) ?? undefined;
  const { [name]: locked } = store.locked();
  const isOwn = addons.extra.some((extra) => extra.name === name);
  const version = asked ?? (isOwn ? kind.version : (locked?.version ?? kind.version));
  const isHeld = locked?.version === version && locked.kind === source.kind;
  const pinned = addons.sources[name]?.sha256 ?? addons.extra.find((extra) => extra.name === name)?.sha256;
  const wanted = pinned ?? (isHeld ? locked.sha256 : undefined);
  const known = wanted === undefined ? undefined : store.bytes(wanted);
  if (known !== undefined && isHeld && locked.sha256 === wanted)
    return { kind: source.kind, version, source: locked.source, bytes: known };
  if (fetch === undefined) {
    throw new AppError("node.unavailable", `${name} ${version} was not fetched yet`, {
      data: { finding: "addon-unreachable" },
    });
  }
  const got = await fetchSource({ name, version, source, addons, folder, fetch });
  const sha256 = sha256Of(got.bytes);
  if (wanted !== undefined && sha256 !== wanted) throw changed(name, version, got.source, wanted, sha256);
  // Before it is trusted for good it must be what it claims to be.
  await renderAddon(kind, { kind: source.kind, bytes: got.bytes }, deps);
  store.keep(got.bytes);
  store.lock(name, {
    version,
    kind: source.kind,
    source: got.source,
    sha256,
    at: new Date(now()).toISOString(),
  });
  return { kind: source.kind, version, ...got };
}

function ownSource(kind: AddonKind, addons: Cluster["addons"]): AddonKind["source"] {
  const { manifest, chart } = addons.sources[kind.name] ?? {};
  if (chart !== undefined) return { kind: "chart", from: chart };
  return manifest === undefined ? kind.source : { kind: "manifest", from: manifest };
}

function changed(name: string, version: string, source: string, wanted: string, found: string): AppError {
  const text = `${name} ${version} from ${source} is ${found.slice(0, 12)}…, and ${wanted.slice(0, 12)}… is expected`;
  return new AppError("object.conflict", text, { data: { finding: "addon-changed" } });
}
