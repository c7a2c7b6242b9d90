// Wires VMs that move between nodes: those that go, and those that come.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { sameText } from "@gpve/kit/same-bytes.ts";
import type { RemoteEndpoint } from "@gpve/domain/vm/migrate/remote-move.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { findMove, noOtherNodes } from "./application/guest/move-ports.ts";
import type { GuestArrivals } from "./application/guest/node-kind.ts";
import { Arrivals } from "./application/qemu/migrate/arrivals.ts";
import { migrateVmOperation } from "./application/qemu/migrate/migrate-operation.ts";
import { receiveVmOperation } from "./application/qemu/migrate/receive-operation.ts";
import { vmArrivals } from "./application/qemu/migrate/vm-arrivals.ts";
import type { StartVmPorts } from "./application/qemu/start/start-vm.ts";
import type { KindParts } from "./compose-kind.ts";
import { RemoteArrivals } from "./application/qemu/remote/remote-arrivals.ts";
import { RemoteReceiver } from "./application/qemu/remote/arrive-operation.ts";
import { RemoteMigration } from "./application/qemu/remote/remote-migrate.ts";
import { connectConsole } from "./infrastructure/vm/console-socket.ts";
import { HttpsCluster } from "./infrastructure/remote/https-cluster.ts";
import { createMigrateHandlers } from "./presentation/pve/vm/vm-migrate-handlers.ts";

export function composeMigration(
  parts: Pick<KindParts, "data" | "records" | "engine" | "moves" | "sha1Hex" | "mayRun" | "replicaNotes">,
  host: StartVmPorts,
): {
  readonly handlers: PveHandlers;
  readonly arrivals: GuestArrivals;
  readonly routes: ReturnType<RemoteReceiver["routes"]>;
  readonly tunnels: ReturnType<RemoteArrivals["tunnels"]>;
} {
  const { records, engine, sha1Hex, mayRun } = parts;
  const moves = {
    ...(parts.moves ?? noOtherNodes(host.configs.node)),
    find: (vmid: number, moveId: string) => findMove(records(), { vmid, moveId }),
  };
  const isOfCopy = (vmid: number, volid: string): boolean =>
    parts.replicaNotes.get(vmid)?.volumes.some((each) => each.volid === volid) === true;
  const migrating = { ...host, moves, records, sha1Hex, mayRun, isOfCopy };
  const arrivals = new Arrivals();
  engine.register(migrateVmOperation(migrating));
  engine.register(receiveVmOperation(migrating, arrivals));
  const folder = parts.data.file("run", "move");
  const reach = (endpoint: RemoteEndpoint, signal: AbortSignal) => new HttpsCluster(endpoint, signal, folder);
  const remote = new RemoteMigration({ ...host, reach }, engine);
  engine.register(remote.operation());
  const connect = (process: QemuProcess, name: string, signal: AbortSignal) =>
    connectConsole(process, name, signal);
  const remoteArrivals = new RemoteArrivals({ ...host, connect, isSame: sameText }, engine);
  const receiver = new RemoteReceiver(host, engine, remoteArrivals);
  engine.register(receiver.operation());
  return {
    handlers: {
      ...createMigrateHandlers({ host: migrating, engine }),
      "POST /nodes/{node}/qemu/{vmid}/remote_migrate": (params, ctx) => remote.request(params, ctx),
    },
    routes: receiver.routes(),
    tunnels: remoteArrivals.tunnels(),
    arrivals: vmArrivals(host, engine, arrivals),
  };
}
