// Wires quotas: one ledger for both faces.
import { randomUUID } from "node:crypto";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { QuotaGate } from "./application/quota/quota-gate.ts";
import { keepQuotas } from "./application/quota/quota-keeper.ts";
import { QuotaLedger } from "./application/quota/quota-ledger.ts";
import { QuotaView } from "./application/quota/quota-view.ts";

export interface Quotas {
  readonly view: QuotaView;
  readonly ledger: QuotaLedger;
  readonly gate: QuotaGate;
  stop(): void;
}

export function composeQuotas(parts: {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly log: Logger;
  /** This server, the same after a restart. */
  readonly owner: string;
}): Quotas {
  const by = `${parts.owner}#${randomUUID()}`;
  const view = new QuotaView({ ...parts, by });
  const ledger = new QuotaLedger({ ...parts, view });
  const gate = new QuotaGate({ ...parts, ledger, view, by });
  return { view, ledger, gate, stop: keepQuotas({ ...parts, ledger, view }) };
}
