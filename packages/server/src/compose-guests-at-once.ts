// Wires what is done with many guests at once into a server: its methods, and the operations behind them.
import { randomUUID } from "node:crypto";
import { datacenterOptions } from "@gpve/domain/cluster/datacenter-options.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Access } from "./application/access/access.ts";
import { atOnceOperations } from "./application/guest/guests-at-once.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { createGuestsAtOnceHandlers } from "./presentation/http/guest/guests-at-once-handlers.ts";

export interface GuestsAtOnceParts {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly engine: OperationEngine;
  readonly access: Pick<Access, "accessOf">;
  readonly calls: Pick<NodeCalls, "call">;
}

export interface ComposedGuestsAtOnce {
  readonly handlers: PveHandlers;
  /** Of every engine, also of those of journals that are taken over. */
  register(engine: OperationEngine): void;
}

export function composeGuestsAtOnce(parts: GuestsAtOnceParts): ComposedGuestsAtOnce {
  const { records, board, engine, access, calls } = parts;
  const { accessOf } = access;
  return {
    handlers: createGuestsAtOnceHandlers({
      engine,
      knowsNode: (node) => board.get(node) !== undefined,
      maxWorkers: () => {
        const workers = datacenterOptions(records)["max_workers"];
        return workers === undefined ? undefined : Number(workers);
      },
    }),
    register(each) {
      for (const operation of atOnceOperations({ records, board, calls, accessOf, newRequestId: randomUUID }))
        each.register(operation);
    },
  };
}
