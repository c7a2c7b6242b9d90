// The QEMU of a node, and what is known of the machine it runs on.
import type { HostFacts } from "../argv/host-facts.ts";

export interface QemuHost {
  /** Of the program. */
  readonly binary: string;
  facts(): HostFacts;
  /** Resolves when the facts may be used. */
  known(): Promise<void>;
  /** Resolves when it is also known what runs guests here; rejects where nothing does. */
  mayStart(): Promise<void>;
}
