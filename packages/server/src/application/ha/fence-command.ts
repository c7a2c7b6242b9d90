// A command of the operator's that takes power or storage from a lost node, run once for each loss: only when it has
// ended well are the node's guests recovered. It is asked again while it fails.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";

const TIMEOUT_MS = 60_000;

export class FenceCommand {
  readonly #argv: readonly string[];
  readonly #deps: { readonly exec: Exec; readonly log: Logger };
  readonly #runs = new Map<string, "running" | "done">();

  constructor(argv: readonly string[], deps: { readonly exec: Exec; readonly log: Logger }) {
    this.#argv = argv;
    this.#deps = deps;
  }

  /** True when the node was fenced by it; otherwise it is run, and the answer is there later. */
  confirms(node: string, token: number): boolean {
    const loss = `${node}/${token}`;
    const state = this.#runs.get(loss);
    if (state === "done") return true;
    if (state === undefined) void this.#run(loss, node);
    return false;
  }

  async #run(loss: string, node: string): Promise<void> {
    const { exec, log } = this.#deps;
    const [file = "", ...args] = this.#argv;
    this.#runs.set(loss, "running");
    try {
      await exec(file, [...args, node], { timeoutMs: TIMEOUT_MS, label: `fencing of ${node}` });
      this.#runs.set(loss, "done");
      log.warn({ node }, `node ${node} was fenced by ${file}`);
    } catch (err) {
      this.#runs.delete(loss);
      log.error(
        { node, err: messageOf(err) },
        `${file} could not fence node ${node}: its guests are not recovered before it can`,
      );
    }
  }
}
