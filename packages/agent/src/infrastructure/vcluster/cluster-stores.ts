// The stores of this node's virtual clusters, by their kind: what an API server is told of one, how it is brought up, and
// how it goes.
//
//   sqlite    a database of the process that has all of them
//   etcd      FOLDER/clusters/<name>/etcd, of a process in the cluster's own network
//   external  somebody else's; the cluster's objects are below a prefix of its own
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ComponentStore } from "@gpve/domain/component/ports.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import { endpointAddress } from "@gpve/domain/vcluster/backing-store.ts";
import type { PartCommand, StoreAccess } from "@gpve/domain/vcluster/control-plane.ts";
import { ETCD_PORT, etcdCommand, etcdUrl } from "@gpve/domain/vcluster/etcd.ts";
import { replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { openEtcdStore } from "@gpve/store/etcd/etcd-store.ts";
import type { Store } from "@gpve/store/port.ts";
import type { ClusterKeys } from "./cluster-keys.ts";
import { EtcdMembers } from "./etcd-members.ts";
import { EtcdPairFiles, type PreparedPair } from "./standby/etcd-pair-files.ts";
import { kubeCall, type KubeAnswer, type KubeCredentials } from "./kube-api.ts";
import type { StoreProcess } from "./store-process.ts";

export interface ClusterStoresDeps {
  /** FOLDER/clusters */
  readonly folder: string;
  readonly sqlite: Pick<
    StoreProcess,
    "serve" | "leave" | "remove" | "stopIfIdle" | "socket" | "socketFolder" | "ensure"
  >;
  readonly components: Pick<ComponentStore, "program">;
  readonly clock: Clock;
}

/** A cluster, with where it is. */
export interface StorePlace {
  readonly cluster: KeptCluster;
  readonly keys: ClusterKeys;
  /** Of its control plane. */
  readonly address: string;
}

const ownKeys = (keys: Pick<ClusterKeys, "etcdTrust">) =>
  ({ ca: keys.etcdTrust, cert: "apiserver-etcd-client.crt", key: "apiserver-etcd-client.key" }) as const;
export const EXTERNAL_KEYS = {
  ca: "external-etcd-ca.crt",
  cert: "external-etcd-client.crt",
  key: "external-etcd-client.key",
} as const;
const READY_MS = 60_000;
const LOOK_MS = 50;

export class ClusterStores {
  readonly #deps: ClusterStoresDeps;
  readonly #members: EtcdMembers;
  /** Of those that can have a standby. */
  readonly pairs: EtcdPairFiles;

  constructor(deps: ClusterStoresDeps) {
    this.#deps = deps;
    this.#members = new EtcdMembers(deps.folder, deps.clock);
    this.pairs = new EtcdPairFiles(deps.folder);
  }

  access({ cluster, keys, address }: StorePlace): StoreAccess {
    const { backingStore, externalEndpoints = [] } = cluster.spec;
    if (backingStore === "etcd") return { servers: [etcdUrl(address)], keys: ownKeys(keys) };
    if (backingStore === "external")
      return { servers: externalEndpoints, keys: EXTERNAL_KEYS, prefix: prefixOf(cluster, keys) };
    return { servers: [`unix://${this.#deps.sqlite.socket(cluster.name)}`] };
  }

  /** For those who may change who belongs to an etcd of its own. */
  etcdAdmin({ keys, address }: Omit<StorePlace, "cluster">): KubeCredentials {
    return credentials(keys, ownKeys(keys), { address, port: ETCD_PORT });
  }

  /** An etcd of its own that runs, spoken to as its API server does. */
  openEtcd({ keys, address }: Omit<StorePlace, "cluster">): Store {
    const { ca, cert, key } = this.etcdAdmin({ keys, address });
    return openEtcdStore({ endpoints: [etcdUrl(address)], tls: { ca, cert, key }, clock: this.#deps.clock });
  }

  /** Beside its keys, what the API server must see. */
  files({ name, spec }: KeptCluster): readonly GuestFile[] {
    if (spec.backingStore !== "sqlite") return [];
    return [{ path: this.#deps.sqlite.socketFolder(name), access: "ro", owned: true }];
  }

  async etcd({ cluster, keys, address }: StorePlace): Promise<
    PartCommand & {
      readonly program: string;
      readonly dataFolder: string;
      /** Of a single control plane: how it is started, and where it meets its standby. */
      readonly pair?: PreparedPair;
    }
  > {
    const { components } = this.#deps;
    const dataFolder = join(this.#deps.folder, cluster.name, "etcd");
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    const member = this.#members.membership(cluster);
    const pair = member === undefined ? await this.pairs.prepare(cluster.name) : undefined;
    const trust = keys.etcdTrust;
    return {
      ...etcdCommand({ address, pki: keys.file, trust, dataFolder, ...given({ member, pair }) }),
      program: components.program("etcd", cluster.etcdVersion ?? "", "etcd"),
      dataFolder,
      ...given({ pair }),
    };
  }

  /** Resolves when it can be spoken to. `etcd`: the process of its own one, where it has that. */
  async serve(
    place: StorePlace,
    signal: AbortSignal,
    etcd: {
      readonly start: () => Promise<void>;
      readonly ended: () => string | undefined;
      /** The one that runs was started to go on without that one's vote. */
      readonly alone: () => number | undefined;
    },
  ): Promise<void> {
    const { cluster, keys, address } = place;
    const { backingStore, externalEndpoints = [] } = cluster.spec;
    if (backingStore === "sqlite") {
      await this.#deps.sqlite.serve(cluster.name, signal);
      return;
    }
    if (backingStore === "etcd") {
      const own = (to: { readonly address: string; readonly port: number }) =>
        credentials(keys, ownKeys(keys), to);
      if (replicaSlot(cluster.overlay) === undefined) await etcd.start();
      else await this.#members.join({ cluster, address, credentials: own, ...etcd }, signal);
      const at = own({ address, port: ETCD_PORT });
      await this.#healthy(`the etcd of virtual cluster ${cluster.name}`, [at], signal, etcd.ended);
      // It answers, and so nobody else has a vote.
      const alone = etcd.alone();
      if (alone !== undefined && alone === this.pairs.note(cluster.name).shared)
        this.pairs.settle(cluster.name);
      return;
    }
    const all = externalEndpoints.map((url) => credentials(keys, EXTERNAL_KEYS, endpointAddress(url)));
    const what = `the external etcd of virtual cluster ${cluster.name} (${externalEndpoints.join(", ")})`;
    await this.#healthy(what, all, signal, () => undefined);
  }

  /** Has the process started that a new cluster will want; whoever wants it says what went wrong. */
  warmUp({ spec, isNew }: KeptCluster): void {
    if (spec.backingStore !== "sqlite" || isNew === true) return;
    this.#deps.sqlite.ensure().catch((err: unknown) => ignore(err, "told when it is wanted"));
  }

  async leave({ name, spec }: KeptCluster): Promise<void> {
    if (spec.backingStore === "sqlite") await this.#deps.sqlite.leave(name);
  }

  /** What is in the cluster's own folder goes with that. */
  async remove({ cluster, keys }: Omit<StorePlace, "address">, say: (line: string) => void): Promise<void> {
    const { backingStore } = cluster.spec;
    if (backingStore === "sqlite") await this.#deps.sqlite.remove(cluster.name);
    if (backingStore === "external") await this.#clear(cluster, keys, say);
  }

  /** It is another node's: what is here goes, and what somebody else keeps stays. */
  async letGo({ name, spec }: KeptCluster): Promise<void> {
    if (spec.backingStore === "sqlite") await this.#deps.sqlite.remove(name);
    if (spec.backingStore !== "etcd") return;
    rmSync(join(this.#deps.folder, name, "etcd"), { recursive: true, force: true });
    this.pairs.forget(name);
  }

  async stopIfIdle(left: readonly KeptCluster[]): Promise<void> {
    const users = left.filter(({ spec }) => spec.backingStore === "sqlite");
    await this.#deps.sqlite.stopIfIdle(users.length);
  }

  /** One of them answers that it is well. */
  async #healthy(
    what: string,
    members: readonly KubeCredentials[],
    signal: AbortSignal,
    ended: () => string | undefined,
  ): Promise<void> {
    const { clock } = this.#deps;
    const until = clock.monotonic() + READY_MS;
    for (;;) {
      const words = ended();
      if (words !== undefined)
        throw new AppError("internal.error", `${what} ended: ${words.trim().slice(-500)}`);
      const answers = await Promise.all(members.map((member) => isHealthy(member, signal)));
      if (answers.includes(true)) return;
      signal.throwIfAborted();
      if (clock.monotonic() > until)
        throw new AppError(
          "request.timeout",
          `${what} does not answer that it is healthy: ${answers.join("; ")}`,
        );
      await clock.sleep(LOOK_MS, signal);
    }
  }

  /** Its objects in somebody else's store. Where that does not answer, they stay, and the cluster goes all the same. */
  async #clear(cluster: KeptCluster, keys: ClusterKeys, say: (line: string) => void): Promise<void> {
    const said: string[] = [];
    // Without keys it never came so far as to write anything.
    if (!existsSync(keys.file("ca.crt"))) return;
    const prefix = prefixOf(cluster, keys);
    for (const url of cluster.spec.externalEndpoints ?? []) {
      try {
        const at = credentials(keys, EXTERNAL_KEYS, endpointAddress(url));
        const { status, body } = await deletePrefix(at, prefix);
        if (status === 200) return;
        said.push(`${url}: ${status} ${body.slice(0, 200)}`);
      } catch (err) {
        said.push(`${url}: ${messageOf(err)}`);
      }
    }
    say(
      `its objects stay in the external etcd, which could not be asked to delete them (${said.join("; ")}): etcdctl del --prefix ${prefix}/`,
    );
  }
}

/** Of one life of a cluster: another of the same name has other keys, and could read nothing of the first. */
function prefixOf({ name, tenant }: KeptCluster, keys: ClusterKeys): string {
  return `/gpve/${tenant}/${name}/${keys.storeMark}`;
}

function credentials(
  keys: ClusterKeys,
  files: Readonly<Record<"ca" | "cert" | "key", string>>,
  { address, port }: { readonly address: string; readonly port: number },
): KubeCredentials {
  const [ca, cert, key] = [keys.read(files.ca), keys.read(files.cert), keys.read(files.key)];
  return { host: address, port, ca, cert, key };
}

/** What it says instead, where it is not. */
async function isHealthy(at: KubeCredentials, signal: AbortSignal): Promise<true | string> {
  try {
    const { status, body } = await kubeCall(at, { method: "GET", path: "/health" }, signal);
    const isWell = status === 200 && /"health"\s*:\s*"?true/.test(body);
    return isWell ? true : `${at.host}:${at.port} says ${status} ${body.slice(0, 200)}`;
  } catch (err) {
    return `${at.host}:${at.port}: ${messageOf(err)}`;
  }
}

/** Through the JSON side of the etcd API. */
function deletePrefix(at: KubeCredentials, prefix: string): Promise<KubeAnswer> {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  // "/" is followed by "0": all keys that begin with the prefix and a slash.
  const body = { key: base64(`${prefix}/`), range_end: base64(`${prefix}0`) };
  const call = { method: "POST", path: "/v3/kv/deleterange", body };
  return kubeCall(at, call, AbortSignal.timeout(30_000));
}
