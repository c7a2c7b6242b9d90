import { AppError } from "@gpve/contracts/errors.ts";

/** What was sent of a guest is of no use, and the guest runs on where it was: it may be sent once more, with more care. */
export class SentInVain extends AppError {
  /** How much of its memory was not empty, where all of it was sent once. */
  readonly fullBytes: number | undefined;

  constructor(message: string, fullBytes: number | undefined) {
    super("operation.failed", message, { pveStatus: 500 });
    this.fullBytes = fullBytes;
  }
}
