// Wires virtual clusters: their processes, network, stores, and the operations on them.
import { join } from "node:path";
import type { VolumeSource } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import type { ClusterKeeper } from "@gpve/domain/vcluster/move/cluster-moves.ts";
import type { VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { OidcIssuer } from "@gpve/domain/vcluster/issuer.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { BackupCounts } from "./application/guest/backup/backup-counts.ts";
import { clusterOperations } from "./application/vcluster/cluster-operations.ts";
import { ClusterPhases } from "./application/vcluster/cluster-phases.ts";
import { clusterRoutes } from "./application/vcluster/cluster-routes.ts";
import { saveRoutes } from "./application/vcluster/save-routes.ts";
import { ClusterWays } from "./application/vcluster/power/cluster-ways.ts";
import { clusterRows } from "./application/vcluster/cluster-rows.ts";
import { plainRegister } from "./application/vcluster/plain-operation.ts";
import { KeepForwards, knownPlaces } from "./application/vcluster/move/keep-forwards.ts";
import { KeepCertificates } from "./application/vcluster/renew/keep-certificates.ts";
import { renewOperation } from "./application/vcluster/renew/renew-operation.ts";
import { formerTrustedUntil } from "@gpve/domain/vcluster/rotate/authorities.ts";
import { rotateOperations } from "./application/vcluster/rotate/rotate-operations.ts";
import { rotatePart, takeAuthorityRoutes } from "./application/vcluster/rotate/rotate-part.ts";
import { rotateRoutes } from "./application/vcluster/rotate/rotate-routes.ts";
import { KeepClusters } from "./application/vcluster/keep-clusters.ts";
import { patientApi } from "./application/vnode/patient-api.ts";
import { VnodeRows } from "./application/vnode/vnode-rows.ts";
import { workerComponent } from "./application/vnode/worker-component.ts";
import { volumesOn } from "./application/vnode/volumes-on.ts";
import { Workers } from "./application/vnode/workers.ts";
import type { NodeStorages } from "./application/storage/node-storages.ts";
import { type ClusterMoveOthers, composeClusterMoves } from "./compose-cluster-moves.ts";
import { composeClusterPower } from "./compose-cluster-power.ts";
import { composeClusterSaves } from "./compose-cluster-saves.ts";
import { composeWorkerKeepers } from "./compose-worker-keepers.ts";
import { type ComposedStandbys, composeStandbys } from "./compose-standbys.ts";
import type { ComposedComponents } from "./compose-components.ts";
import { SupervisedQemus } from "./infrastructure/guest-process/supervised-qemus.ts";
import { lastAuditLines } from "./infrastructure/vcluster/cluster-audit.ts";
import { hostNetworks, ownAddresses } from "./infrastructure/vcluster/network/host-networks.ts";
import { findKata, requireKata } from "./infrastructure/vnode/find-kata.ts";
import { hostFiles } from "./infrastructure/facts/host-files.ts";
import { ownEtcds } from "./infrastructure/vcluster/backup/with-store.ts";
import type { KataRuntime } from "@gpve/domain/vcluster/vnode/kata.ts";
import { nodeLookup, requireIssuer } from "./infrastructure/vcluster/cluster-issuer.ts";
import { FileClusterAuthorities } from "./infrastructure/vcluster/file-cluster-authorities.ts";
import { ClusterFigures } from "./infrastructure/vcluster/cluster-figures.ts";
import { ClusterNetworks } from "./infrastructure/vcluster/network/cluster-network.ts";
import { ClusterStores } from "./infrastructure/vcluster/cluster-stores.ts";
import { clusterApi } from "./infrastructure/vcluster/cluster-api.ts";
import type { KubeCredentials } from "./infrastructure/vcluster/kube-api.ts";
import { LinuxClusterHost } from "./infrastructure/vcluster/linux-cluster-host.ts";
import { LinuxVnodeHost } from "./infrastructure/vnode/linux-vnode-host.ts";
import { nodeNameServers } from "./infrastructure/vnode/node-name-servers.ts";
import { FileFormerPlaces } from "./infrastructure/vcluster/proxy/file-former-places.ts";
import { readCdi } from "./infrastructure/vnode/devices/read-cdi.ts";
import { VnodeDevices } from "./infrastructure/vnode/devices/vnode-devices.ts";
import { MachineImages } from "./infrastructure/vnode/machine/machine-images.ts";
import {
  MachineVnodeHost,
  type MachineVnodeHostDeps,
} from "./infrastructure/vnode/machine/machine-vnode-host.ts";
import { VnodeHosts } from "./infrastructure/vnode/vnode-hosts.ts";
import { type FrontAddress, ProxyProcess } from "./infrastructure/vcluster/proxy/proxy-process.ts";
import { type SelfProgram, StoreProcess } from "./infrastructure/vcluster/store-process.ts";

/** Of the first cluster's own port; the port below is of all, by name. */
const FIRST_PORT = 16_443;

export interface VclusterParts {
  readonly data: DataDir;
  readonly node: string;
  readonly exec: Exec;
  readonly clock: Clock;
  readonly log: Logger;
  readonly engine: OperationEngine;
  readonly components: ComposedComponents;
  /** Path of the supervisor. */
  readonly supervisor: string;
  readonly self: SelfProgram;
  readonly front: FrontAddress;
  readonly storages: NodeStorages;
  readonly backups: Pick<BackupCounts, "counting">;
  readonly moves: ClusterMoveOthers;
  readonly records: () => Records;
  /** What runs the machines of workers. */
  readonly machines: Pick<MachineVnodeHostDeps, "qemu" | "accelerator">;
  /** Resolves when it is known which accelerator works. */
  readonly guestsTried: () => Promise<void>;
  /** For how long no server has confirmed that this node lives; undefined = nobody is asked to. */
  readonly silentMs: () => number | undefined;
  /** Servers are to be told soon. */
  readonly changed: () => void;
}

export interface ComposedVclusters {
  readonly routes: ReturnType<typeof clusterRoutes> &
    ReturnType<typeof saveRoutes> &
    ReturnType<typeof rotateRoutes> &
    ReturnType<typeof takeAuthorityRoutes> &
    ReturnType<typeof composeClusterMoves>["routes"] &
    ComposedStandbys["routes"];
  /** Takes control planes from other nodes. */
  readonly arrivals: ClusterKeeper;
  readonly volumes: VolumeSource;
  /** Follows the stores of other nodes' clusters. */
  readonly standbys: Pick<ComposedStandbys, "keeper" | "rows">;
  readonly rows: () => readonly VirtualClusterRuntime[];
  /** Finds what runs already; before operations recover. */
  adopt(): Promise<void>;
  /** Starts what shall run and does not; when operations run. */
  resume(): Promise<void>;
  close(): void;
}

export function composeVclusters(parts: VclusterParts): ComposedVclusters {
  const { data, exec, clock, log, engine, components, changed } = parts;
  const folder = data.file("vclusters");
  const instanceId = `${data.instanceId}-vc`;
  const processes = new SupervisedQemus({
    dataFolder: folder,
    instanceId,
    supervisor: parts.supervisor,
    log,
    clock,
  });
  const networks = new ClusterNetworks(exec, data.instanceId, data.file("vclusters", "run"), (cluster) =>
    forwards.networks(cluster),
  );
  const front = new ProxyProcess({
    folder: data.file("vclusters", "proxy"),
    processes,
    self: parts.self,
    clock,
    log,
    address: parts.front,
    sharedPort: FIRST_PORT - 1,
  });
  const stores = new StoreProcess({
    folder: data.file("vclusters", "store"),
    processes,
    self: parts.self,
    clock,
  });
  const clusterStores = new ClusterStores({
    folder: data.file("vclusters", "clusters"),
    sqlite: stores,
    components: components.store,
    clock,
  });
  const host = new LinuxClusterHost({
    folder,
    processes,
    networks,
    stores: clusterStores,
    components: components.store,
    self: parts.self,
    clock,
    nodeNames: [...new Set([parts.node.toLowerCase(), parts.front.name, ...ownAddresses()])],
    front,
    firstPort: FIRST_PORT,
  });
  const forwards = new KeepForwards({
    node: parts.node,
    host,
    former: new FileFormerPlaces(data.file("vclusters", "former.json")),
    places: () => knownPlaces(parts.records),
    firstPort: FIRST_PORT,
    sharedPort: FIRST_PORT - 1,
    clock,
    log,
  });
  const credentials = (cluster: KeptCluster): Promise<KubeCredentials> => host.credentials(cluster);
  const api = clusterApi(credentials);
  const versionOf = (name: string): string => workerComponent(components.store, components.catalogue, name);
  const programs = {
    program: (name: string, program: string) => components.store.program(name, versionOf(name), program),
    kubernetes: (version: string, program: string) =>
      components.store.program("kubernetes", version, program),
  };
  const ofFiles = { folder, exec, clock, log };
  const ofWorkers = {
    ...ofFiles,
    instanceId,
    processes,
    networks,
    keysOf: (name: string) => host.keys(name),
    endpoint: (cluster: KeptCluster) => host.workersEndpoint(cluster),
    nameServers: nodeNameServers,
  };
  const kata = (): Promise<KataRuntime> => findKata({ exec, files: hostFiles });
  const volumeStorage = volumesOn(parts.storages);
  const devices = new VnodeDevices({ folder, read: readCdi });
  const inNamespaces = new LinuxVnodeHost({ ...ofWorkers, ...programs, kata, volumeStorage, devices });
  const machineImages = new MachineImages({
    ...programs,
    cache: process.env["GPVE_IMAGE_CACHE"] ?? data.file("agent", "images"),
    imageFolder: data.file("vclusters", "images"),
    exec,
    log,
  });
  const machines = new MachineVnodeHost({
    ...ofWorkers,
    ...parts.machines,
    list: (name) => inNamespaces.list(name),
    images: (version, signal) => machineImages.of(version, signal),
  });
  const vnodes = new VnodeHosts(inNamespaces, machines);
  const patient = patientApi(api, clock);
  const workers = new Workers({
    vnodes,
    api: patient,
    clock,
    ensureComponent: (name, ctx) => components.ensure(name, versionOf(name), ctx),
    nameServers: nodeNameServers,
  });
  const ofNode = { host, clock, log, changed };
  const { workerKeepers, volumeKeeper } = composeWorkerKeepers({
    ...ofNode,
    vnodes,
    devices,
    api,
    routes: networks,
  });
  const vnodeRows = new VnodeRows(vnodes, clock);
  const ways = new ClusterWays(host, front, () => forwards.routes());
  const tellWays = (): void => background(log, "telling the proxy of virtual clusters", ways.tell());
  const phases = new ClusterPhases(host, () => {
    tellWays();
    changed();
  });
  const figures = new ClusterFigures({ host, credentials, clock, log });
  const auditLines = ({ name }: { readonly name: string }): readonly string[] =>
    lastAuditLines(join(folder, "clusters", name));
  const powered = { phases, front, ways, engine, api, credentials, auditLines };
  const { power, falls, wakes } = composeClusterPower({ ...ofNode, ...powered });
  const keeper = new KeepClusters({ host, clock, log, changed });
  const { places, saves, volumes, registerSaves } = composeClusterSaves({
    ...ofFiles,
    stores,
    etcds: ownEtcds(host, processes),
    storages: parts.storages,
    volumeStorage,
    backups: parts.backups,
    others: parts.moves,
  });
  const { create, restore, scale, others } = clusterOperations({
    host,
    phases,
    workers,
    ensureComponent: components.ensure,
    fill: async (cluster, { archive, identity }, { signal, log: say }) =>
      saves.unpack(cluster, await places.file(archive), identity, { signal, say }),
    etcdVersion: () => versionOf("etcd"),
  });
  const register = plainRegister(engine, host);
  const common = { host, phases, ways, vnodes };
  registerSaves(register, { ...common, workers, api: patient, ensureComponent: components.ensure });
  register(renewOperation({ ...common, api }));
  const authorities = new FileClusterAuthorities((name) => host.keys(name));
  const rotating = { ...common, api: patient, authorities };
  const rotation = rotateOperations(rotating);
  register(rotation.rotate);
  register(rotation.drop);
  register(rotatePart(rotating));
  const certificates = new KeepCertificates({
    host,
    isDue: (name) =>
      host
        .keys(name)
        .isDue(vnodes.list(name).map((vnode) => join(folder, "clusters", name, "vnodes", vnode.name, "etc"))),
    authorities,
    engine,
    clock,
    log,
  });
  register(scale);
  for (const operation of [create, restore, ...others]) register(operation);
  register(falls);
  register(wakes);
  engine.observe(({ kind }) => {
    // The last one is gone only when its deletion has ended.
    if (kind === "ended" && host.list().length === 0) tellWays();
  });
  const asked = {
    host,
    vnodes,
    devices,
    components: components.store,
    catalogue: components.catalogue,
    engine,
    volumeStorage,
    awake: (name: string) => power.awake(name),
    obtainable: (version: string, signal: AbortSignal) =>
      components.obtainable("kubernetes", version, signal),
    hostNetworks: () => hostNetworks(),
    requireKata: () =>
      requireKata(kata, async () => {
        await parts.guestsTried();
        return parts.machines.accelerator() === "kvm";
      }),
    requireIssuer: (issuer: OidcIssuer, version: string) => requireIssuer(issuer, version, nodeLookup),
    auditLines,
  };
  const noteLeft = (cluster: KeptCluster): void => forwards.note(cluster);
  const moving = { folder, host, phases, vnodes, stores, engine, noteLeft, authorities, ...parts.moves };
  const moves = composeClusterMoves({
    ...moving,
    workers,
    awake: asked.awake,
    ensureComponent: components.ensure,
  });
  const standbys = composeStandbys({
    ...moving,
    processes,
    self: parts.self,
    clock,
    log,
    changed,
    workers,
    networks,
    silentMs: parts.silentMs,
    etcds: {
      files: clusterStores.pairs,
      processes,
      components: components.store,
      process: (cluster) => host.etcd.of(cluster),
      restart: (cluster) => host.etcd.restart(cluster, () => host.startPart(cluster, "etcd")),
      credentials: (cluster) => clusterStores.etcdAdmin(host.storePlace(cluster)),
    },
    ensureComponent: components.ensure,
    stopIfIdle: () => clusterStores.stopIfIdle(host.list()),
  });
  const saving = saveRoutes({ ...asked, places, saves });
  return {
    routes: {
      ...clusterRoutes({ ...asked, api, clock }),
      ...saving,
      ...rotateRoutes({ ...asked, authorities }),
      ...takeAuthorityRoutes({ host, authorities }),
      ...moves.routes,
      ...standbys.routes,
    },
    arrivals: moves.arrivals,
    volumes,
    standbys,
    rows: clusterRows({
      host,
      clock,
      figures: (name) => figures.of(name),
      ways,
      keptAwake: (cluster) => power.keptAwake(cluster),
      vnodes: (cluster) => vnodeRows.of(cluster),
      waitingBytes: (name) => volumeKeeper.waitingBytes(name),
      standby: (name) => standbys.stateOf(name),
      formerTrustedUntil: (name) => formerTrustedUntil(authorities.rotation(name)),
    }),
    async adopt() {
      const { ended } = await processes.adopt();
      for (const { id } of ended) await processes.forget(id);
    },
    async resume() {
      if (host.list().length > 0) tellWays();
      await keeper.resume();
      for (const each of standbys.keepers) each.start();
      for (const each of workerKeepers) each.begin();
      power.start();
      background(log, "figures of virtual clusters", figures.follow());
      background(log, "certificates of virtual clusters", certificates.follow());
      background(
        log,
        "ways to virtual clusters of other nodes",
        forwards.follow(() => ways.tell()),
      );
    },
    close() {
      for (const each of standbys.keepers) each.close();
      power.close();
      figures.close();
      certificates.close();
      forwards.close();
      front.close();
      keeper.close();
      for (const each of workerKeepers) each.close();
      processes.leave();
    },
  };
}
