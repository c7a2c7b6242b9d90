// Saves of virtual clusters in memory: the store of each is one word.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterManifest, ClusterSaves } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { Identity } from "@gpve/domain/vcluster/backup/identity.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";

interface Saved {
  readonly manifest: ClusterManifest;
  readonly content: string;
}

export class FakeClusterSaves implements ClusterSaves {
  /** What each cluster has, by its name. */
  readonly contents = new Map<string, string>();
  readonly identities = new Map<string, Identity>();
  readonly kept = new Map<string, string>();
  readonly away = new Set<string>();
  /** By path. */
  readonly archives = new Map<string, Saved>();
  readonly broken = new Set<"keep" | "pack" | "unpack" | "bringBack">();

  async keep(
    { name }: KeptCluster,
    label: string,
  ): Promise<{ readonly revision: number; readonly objects: number }> {
    this.#mayBreak("keep");
    this.kept.set(`${name}/${label}`, this.contents.get(name) ?? "");
    return { revision: 7, objects: 1 };
  }

  async bringBack({ name }: KeptCluster, label: string): Promise<void> {
    this.#mayBreak("bringBack");
    this.contents.set(name, this.kept.get(`${name}/${label}`) ?? "lost");
  }

  isKept(name: string, label: string): boolean {
    return this.kept.has(`${name}/${label}`);
  }

  drop(name: string, label: string): void {
    this.kept.delete(`${name}/${label}`);
    this.away.delete(name);
  }

  putWorkersAway(name: string): void {
    this.away.add(name);
  }

  bringWorkersBack(name: string): void {
    this.away.delete(name);
  }

  async pack(cluster: KeptCluster, path: string): Promise<ClusterManifest> {
    const { name, tenant, spec, version } = cluster;
    this.#mayBreak("pack");
    const manifest: ClusterManifest = {
      name: calledOf(cluster),
      tenant,
      spec: shownVirtualClusterSpec(spec),
      kubernetesVersion: version,
      createdAt: "2026-01-01T00:00:00.000Z",
      revision: 7,
      objects: 1,
      volumes: [],
    };
    this.archives.set(path, { manifest, content: this.contents.get(name) ?? "" });
    return manifest;
  }

  async discard(path: string): Promise<void> {
    this.archives.delete(path);
  }

  async manifest(path: string): Promise<ClusterManifest> {
    return this.#archive(path).manifest;
  }

  async unpack({ name }: KeptCluster, path: string, identity: Identity): Promise<void> {
    this.#mayBreak("unpack");
    this.contents.set(name, this.#archive(path).content);
    this.identities.set(name, identity);
  }

  #archive(path: string): Saved {
    const found = this.archives.get(path);
    if (found !== undefined) return found;
    throw new AppError("request.invalid", `${path} is no backup of a virtual cluster`);
  }

  #mayBreak(what: "keep" | "pack" | "unpack" | "bringBack"): void {
    if (this.broken.has(what)) throw new AppError("internal.error", `${what} is broken`);
  }
}
