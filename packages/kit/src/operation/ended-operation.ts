import type { OperationView } from "./record.ts";

/** All that stays of an operation in memory when it has ended: no log, no switch, no steps' state (the journal has it). */
export class EndedOperation {
  readonly record: OperationView;

  constructor(last: OperationView) {
    this.record = { ...last, data: {} };
  }

  /** The same object each time: lists of thousands are cheap, and readers may cache by it. */
  view(): OperationView {
    return this.record;
  }
}
