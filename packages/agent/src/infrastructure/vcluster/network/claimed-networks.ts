// Which gpve of this machine has which network for its virtual clusters, also while the bridges are gone: after `down --guests`
// another gpve would take the number, and both would have the same addresses after the next `up`.
import { existsSync, mkdirSync, readlinkSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { readTextFile, writeFileWhole } from "@gpve/kit/atomic-file.ts";

export class ClaimedNetworks {
  readonly #owner: string;
  readonly #folder: string;

  /** `owner`: a folder of the gpve that claims. When that is gone, so are its claims. */
  constructor(owner: string, folder = claimsFolder(owner)) {
    this.#owner = owner;
    this.#folder = folder;
  }

  isOthers(index: number): boolean {
    const owner = readTextFile(this.#file(index));
    return owner !== undefined && owner !== this.#owner && existsSync(owner);
  }

  claim(index: number): void {
    if (this.isOthers(index)) return;
    const file = this.#file(index);
    if (readTextFile(file) === this.#owner) return;
    mkdirSync(dirname(file), { recursive: true });
    writeFileWhole(file, this.#owner);
  }

  release(index: number): void {
    if (readTextFile(this.#file(index)) === this.#owner) rmSync(this.#file(index), { force: true });
  }

  #file(index: number): string {
    return join(this.#folder, String(index));
  }
}

/** Nodes that are network namespaces of one machine have bridges of their own. /run is emptied at a boot, as bridges are. */
function claimsFolder(owner: string): string {
  if (process.getuid?.() !== 0) return join(owner, "networks");
  const namespace = readlinkSync("/proc/self/ns/net").replaceAll(/\D/g, "");
  return `/run/gpve/vc-networks/${namespace}`;
}
