// Wires standbys of virtual clusters' stores: those of other nodes' that are kept here, and the lines to those of this node's.
import { AppError } from "@gpve/contracts/errors.ts";
import { hasSingleEtcd } from "@gpve/domain/vcluster/standby/etcd-pair.ts";
import type { StandbyKeeper, StandbyPeers } from "@gpve/domain/vcluster/standby/ports.ts";
import { standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import type { StandbyRow, StandbyRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { plainRegister } from "./application/vcluster/plain-operation.ts";
import { KeepApart, type KeepApartDeps } from "./application/vcluster/standby/keep-apart.ts";
import { KeepLines, type KeepLinesDeps } from "./application/vcluster/standby/keep-lines.ts";
import {
  type StandbyOperationDeps,
  standbyOperations,
} from "./application/vcluster/standby/standby-operations.ts";
import { standbyRoutes } from "./application/vcluster/standby/standby-routes.ts";
import { LineProcess, type LineProcessDeps } from "./infrastructure/vcluster/line/line-process.ts";
import type { ClusterNetworks } from "./infrastructure/vcluster/network/cluster-network.ts";
import { EtcdFollowers, type EtcdFollowersDeps } from "./infrastructure/vcluster/standby/etcd-followers.ts";
import { EtcdLeads, type EtcdLeadsDeps } from "./infrastructure/vcluster/standby/etcd-leads.ts";
import type { EtcdPairFiles } from "./infrastructure/vcluster/standby/etcd-pair-files.ts";
import { StandbyHosts } from "./infrastructure/vcluster/standby/standby-hosts.ts";
import { LinuxStandbyHost } from "./infrastructure/vcluster/standby/linux-standby-host.ts";
import type { StoreProcess } from "./infrastructure/vcluster/store-process.ts";

export interface StandbyParts extends Omit<StandbyOperationDeps, "standbys"> {
  /** DIR/vclusters */
  readonly folder: string;
  readonly stores: StoreProcess;
  readonly self: LineProcessDeps["self"];
  readonly engine: OperationEngine;
  readonly clock: Clock;
  readonly log: Logger;
  readonly peers: StandbyPeers;
  readonly findMove: KeepLinesDeps["findMove"];
  readonly changed: () => void;
  /** Ends the process of the stores where it has none left. */
  readonly stopIfIdle: () => Promise<void>;
  readonly silentMs: KeepApartDeps["silentMs"];
  readonly networks: Pick<ClusterNetworks, "shut">;
  readonly etcds: Pick<EtcdLeadsDeps, "process" | "restart" | "credentials"> &
    Pick<EtcdFollowersDeps, "processes" | "components"> & { readonly files: EtcdPairFiles };
  readonly processes: LineProcessDeps["processes"];
}

export interface ComposedStandbys {
  readonly routes: ReturnType<typeof standbyRoutes>;
  readonly keeper: StandbyKeeper;
  /** Lines to standbys, and what is shut where nobody is heard of. */
  readonly keepers: readonly { start(): void; close(): void }[];
  readonly rows: () => readonly StandbyRow[];
  readonly stateOf: (name: string) => StandbyRuntime | undefined;
}

export function composeStandbys(parts: StandbyParts): ComposedStandbys {
  const { folder, stores, engine, clock, host } = parts;
  const etcds = { ...parts.etcds, folder, clock, log: parts.log };
  const leads = new EtcdLeads({ ...etcds, clusters: () => host.list().filter(hasSingleEtcd) });
  const followers = new EtcdFollowers(etcds);
  const standbys = new StandbyHosts({
    databases: new LinuxStandbyHost({ folder, stores, clock }),
    leads,
    followers,
    storeOf: (name) => host.get(name)?.spec.backingStore,
  });
  const { processes, self } = parts;
  const lines = new LineProcess({ processes, stores, self, clock });
  const register = plainRegister(engine, { get: (name) => host.get(name) ?? standbys.get(name) });
  for (const operation of standbyOperations({ ...parts, standbys })) register(operation);
  return {
    routes: standbyRoutes({
      host,
      standbys,
      engine,
      changed: parts.changed,
      stopIfIdle: parts.stopIfIdle,
    }),
    keeper: {
      followEnd: (name) => standbys.followEnd(name),
      followPlace: async (name, address) => {
        const end = standbys.followEnd(name);
        const { generation = 0 } = standbys.get(name) ?? {};
        if (end.isLasting === true) return lines.place(standbyLineId(name, generation), address, end);
        throw new AppError("feature.unsupported", "who follows an etcd is led to it by the agent");
      },
    },
    keepers: [
      leads,
      { start: () => undefined, close: () => followers.close() },
      new KeepLines({ ...parts, standbys, lasting: lines }),
      { start: () => undefined, close: () => lines.leave() },
      new KeepApart({ ...parts, standbys, shut: (network, isShut) => parts.networks.shut(network, isShut) }),
    ],
    rows: () => standbys.list().map(({ name, tenant }) => ({ name, tenant, isFed: standbys.isFed(name) })),
    stateOf: (name) => standbys.state(name),
  };
}
