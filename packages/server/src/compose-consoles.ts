// Wires consoles into a server: the methods that ask for one, and the websockets that carry it.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
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
import type { ListenerOptions } from "./presentation/listener/listener.ts";

export function composeConsoles(
  parts: ConsoleUpgradeDeps & {
    readonly tickets: SpiceTickets;
    readonly certificate: () => string;
    readonly caPem: () => string;
    readonly spiceProxy: SpiceHandlerDeps["proxy"];
  },
): {
  readonly handlers: PveHandlers;
  readonly onUpgrade: ListenerOptions["onUpgrade"];
} {
  const { calls, localNode, tickets, certificate, caPem, spiceProxy } = parts;
  const reach = { calls, localNode, tickets, certificate };
  const [onConsole, onMtunnel] = [createConsoleUpgrade(parts), createMtunnelUpgrade(parts)];
  return {
    handlers: {
      ...createMtunnelHandlers(reach),
      ...createConsoleHandlers(reach),
      ...createSpiceHandlers({ ...reach, caPem, proxy: spiceProxy }),
    },
    onUpgrade: (req, socket, head) =>
      isMtunnelUpgrade(req) ? onMtunnel(req, socket, head) : onConsole(req, socket, head),
  };
}
