// Wires consoles into a server: the methods that ask for one, and the websockets that carry it.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { createConsoleHandlers } from "./presentation/http/console/console-handlers.ts";
import {
  createConsoleUpgrade,
  type ConsoleUpgradeDeps,
} from "./presentation/http/console/console-upgrade.ts";
import type { ListenerOptions } from "./presentation/listener/listener.ts";

export function composeConsoles(parts: ConsoleUpgradeDeps & { readonly certificate: () => string }): {
  readonly handlers: PveHandlers;
  readonly onUpgrade: ListenerOptions["onUpgrade"];
} {
  const { agents, localNode, tickets, certificate } = parts;
  return {
    handlers: createConsoleHandlers({ agents: () => agents, localNode, tickets, certificate }),
    onUpgrade: createConsoleUpgrade(parts),
  };
}
