// VMs that come from other nodes, as those who bring them see it.
import { given } from "@gpve/contracts/given.ts";
import { missing } from "@gpve/domain/request/failures.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { GuestArrivals } from "../../guest/node-kind.ts";
import { type RunningPorts, runningVm } from "../running-vm.ts";
import type { Arrivals } from "./arrivals.ts";
import { announce } from "./incoming.ts";

/** What QEMU waits at. */
const CHANNELS = ["ram", "nbd"];

export function vmArrivals(
  host: RunningPorts,
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
      if (process === undefined || !CHANNELS.includes(channel))
        throw missing(`VM ${move.vmid} serves no ${channel} here`);
      return { path: `${process.ioFolder}/${channel}`, ...given({ ownerUid: process.uid }) };
    },
  };
}
