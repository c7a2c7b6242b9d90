// VMs that come from other nodes, as those who bring them see it.
import { given } from "@gpve/contracts/given.ts";
import { missing } from "@gpve/domain/request/failures.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { GuestArrivals } from "../../guest/node-kind.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import { processId, type RunningPorts, runningVm } from "../running-vm.ts";
import type { Arrivals } from "./arrivals.ts";
import { announce } from "./incoming.ts";

/** What QEMU waits at; RAM is led there before it waits. */
const RAM = "ram";
const CHANNELS = [RAM, "nbd"];

interface ArrivalPorts extends RunningPorts {
  readonly processes: RunningPorts["processes"] & Pick<QemuProcesses, "placeOf" | "uidOf">;
}

export function vmArrivals(
  host: ArrivalPorts,
  engine: OperationEngine,
  arrivals: Pick<Arrivals, "find" | "prepare" | "receive" | "start" | "require">,
): GuestArrivals {
  return {
    has: ({ id }) => arrivals.find(id) !== undefined,
    prepare: (move, offer, gone) => arrivals.prepare(engine, move, offer, gone),
    receive: (move, volid, source) => arrivals.receive(move, volid, source),
    start: (move, wanted, key) => arrivals.start(move, wanted, key),
    announce: async (move) => {
      arrivals.require(move);
      const process = runningVm(host, move.vmid);
      if (process !== undefined) await announce(process);
    },
    socketOf: (move, channel) => {
      arrivals.require(move);
      const process = runningVm(host, move.vmid);
      if (!CHANNELS.includes(channel) || (process === undefined && channel !== RAM))
        throw missing(`VM ${move.vmid} serves no ${channel} here`);
      const id = processId(move.vmid);
      const { ioFolder, uid } = process ?? {
        ioFolder: host.processes.placeOf(id).ioFolder,
        uid: host.processes.uidOf(id),
      };
      return { path: `${ioFolder}/${channel}`, ...given({ ownerUid: uid }) };
    },
  };
}
