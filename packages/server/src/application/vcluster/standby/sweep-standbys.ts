// Standbys that nobody wants any more, wherever a node tells of one.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { AskedOf } from "@gpve/contracts/agent/agent-routes.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";

export const FORGET = "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}" as const;
export type ForgetRoute = typeof FORGET;

export interface SweepDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly log: Pick<Logger, "warn">;
  readonly ask: (node: string, asked: AskedOf<ForgetRoute>) => Promise<unknown>;
}

export async function sweepStandbys({ board, log, records, ask }: SweepDeps): Promise<void> {
  for (const { node, health, report } of board.list()) {
    if (health !== "online") continue;
    for (const { name, tenant } of report?.standbys ?? []) {
      // As it is now: it may have been decided a moment ago.
      const found = records.collection(vclusterCollection).get(name)?.value;
      const record = found?.tenant === tenant ? found : undefined;
      // The node that goes on with it has it until it has begun.
      const isGoingOn = record?.node === node && record.recovered?.isDone !== true;
      if (record?.standby?.node === node || isGoingOn) continue;
      await ask(node, { vcluster: name, tenant }).catch((err: unknown) =>
        log.warn({ resource: `vcluster/${name}`, node, err: messageOf(err) }, "an old standby stays for now"),
      );
    }
  }
}
