// Wires high availability into a server: its methods, and the manager's rounds.
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { FenceCommand } from "./application/ha/fence-command.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { HaConfig } from "./application/ha/ha-config.ts";
import { HaPower, haPowerOperations, type HaPowerDeps } from "./application/ha/ha-power.ts";
import { HaRules } from "./application/ha/ha-rules.ts";
import { HaStatus } from "./application/ha/ha-status.ts";
import { keepManager } from "./application/ha/keep-manager.ts";
import { ManagerEnvironment } from "./application/ha/manager-environment.ts";
import { nodeRecords } from "./application/node/collections.ts";
import type { V1Deps } from "./presentation/v1/ports.ts";
import { createHaHandlers } from "./presentation/http/ha/ha-handlers.ts";

export interface HaParts {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly log: Logger;
  readonly exec: Exec;
  readonly engine: OperationEngine;
  readonly nodeName: string;
  /** This process. */
  readonly holder: string;
  readonly quorate: () => boolean;
  /** Throws what stands in the way of a move. */
  readonly movable: HaPowerDeps["movable"];
  /** Run with a node's name before its guests are recovered: power or storage is taken from it. */
  readonly fenceCommand: readonly string[] | undefined;
}

export interface ComposedHa {
  readonly handlers: PveHandlers;
  /** Starts and stops of guests under HA. */
  readonly power: HaPower;
  readonly rules: HaRules;
  /** Of every engine, also of those of journals that are taken over. */
  register(engine: OperationEngine): void;
  /** For /api/v1. */
  readonly face: V1Deps["ha"];
  /** Until the signal aborts. */
  start(signal: AbortSignal): Promise<void>;
}

export function composeHa(parts: HaParts): ComposedHa {
  const { records, board, clock, log, nodeName, quorate, fenceCommand, movable } = parts;
  const nodes = (): readonly string[] =>
    records
      .collection(nodeRecords)
      .list()
      .map(({ id }) => id);
  const knowsNode = (node: string): boolean => records.collection(nodeRecords).get(node) !== undefined;
  const isOffline = (node: string): boolean => board.get(node)?.health === "offline";
  const config = new HaConfig({ records, clock, knowsNode, isOffline });
  const rules = new HaRules(records, config, nodes);
  const status = new HaStatus({ records, clock, localNode: nodeName, quorate, nodes });
  const hook =
    fenceCommand === undefined ? undefined : new FenceCommand(fenceCommand, { exec: parts.exec, log });
  return {
    handlers: createHaHandlers({ config, rules, status, movable }),
    rules,
    power: new HaPower({ records, config, rules, movable, engine: parts.engine }),
    register(engine) {
      for (const operation of haPowerOperations(config)) engine.register(operation);
    },
    face: {
      evidence: (about) => status.evidence(about),
      maintenance: (node, enabled, by) => config.maintenance(node, enabled, by),
    },
    start(signal) {
      const environment = new ManagerEnvironment({
        node: nodeName,
        holder: parts.holder,
        records,
        board,
        clock,
        log,
        nodes,
        ...(hook === undefined ? {} : { fenceHook: (node, token) => hook.confirms(node, token) }),
      });
      const running = keepManager({ environment, records, clock, log }, signal);
      background(log, "the HA manager", running);
      return running.catch(() => undefined);
    },
  };
}
