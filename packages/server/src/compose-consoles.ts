// Wires consoles into a server: the methods that ask for one, and the websockets that carry it.
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { AccessEpoch } from "./application/v1/access-epoch.ts";
import { createConsoleHandlers } from "./presentation/http/console/console-handlers.ts";
import {
  createConsoleUpgrade,
  type ConsoleUpgradeDeps,
} from "./presentation/http/console/console-upgrade.ts";
import {
  createSpiceHandlers,
  type SpiceHandlerDeps,
  type SpiceTickets,
} from "./presentation/http/console/spice-handlers.ts";
import {
  createMtunnelHandlers,
  createMtunnelUpgrade,
  isMtunnelUpgrade,
} from "./presentation/http/console/mtunnel.ts";
import {
  createTunnelUpgrade,
  isTunnelUpgrade,
  type TunnelUpgradeDeps,
} from "./presentation/v1/tunnel-upgrade.ts";
import type { ListenerOptions } from "./presentation/listener/listener.ts";

export function composeConsoles(
  parts: ConsoleUpgradeDeps & {
    readonly tickets: SpiceTickets;
    readonly certificate: () => string;
    readonly caPem: () => string;
    readonly spiceProxy: SpiceHandlerDeps["proxy"];
    readonly records: Records;
  } & Omit<TunnelUpgradeDeps, "nodeOf" | "epoch">,
): {
  readonly handlers: PveHandlers;
  readonly onUpgrade: ListenerOptions["onUpgrade"];
} {
  const { calls, localNode, tickets, certificate, caPem, spiceProxy } = parts;
  const reach = { calls, localNode, tickets, certificate };
  const [onConsole, onMtunnel] = [createConsoleUpgrade(parts), createMtunnelUpgrade(parts)];
  const guests = parts.records.collection(guestCollection);
  const onTunnel = createTunnelUpgrade({
    ...parts,
    nodeOf: (vmid) => guests.get(String(vmid))?.value.node,
    epoch: new AccessEpoch(parts.records),
  });
  return {
    handlers: {
      ...createMtunnelHandlers(reach),
      ...createConsoleHandlers(reach),
      ...createSpiceHandlers({ ...reach, caPem, proxy: spiceProxy }),
    },
    onUpgrade: (req, socket, head) => {
      if (isTunnelUpgrade(req)) onTunnel(req, socket, head);
      else if (isMtunnelUpgrade(req)) onMtunnel(req, socket, head);
      else onConsole(req, socket, head);
    },
  };
}
