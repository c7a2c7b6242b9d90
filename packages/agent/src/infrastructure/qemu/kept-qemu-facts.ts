// The facts behind command lines, kept: what QEMU knows for as long as the binary stays the same, the rest for some
// seconds.
import { dirname, join } from "node:path";
import { NO_QEMU } from "@gpve/domain/vm/argv/machine/machine.ts";
import type { GuestArch, HostFacts } from "@gpve/domain/vm/argv/host-facts.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { HostFiles } from "../facts/host-files.ts";
import { HOST_ARCH, hostTries, readHostFacts, type ClusterFacts, type HostTries } from "./host-facts.ts";
import { askQemu, type QemuKnowledge } from "./qemu-probe.ts";

export interface KeptQemuFactsDeps {
  readonly node: string;
  readonly files: HostFiles;
  readonly exec: Exec;
  readonly clock: Clock;
  readonly log: Logger;
  readonly folder: string;
  readonly qemuBinary: string;
  /** A guest really ran under it. */
  readonly kvmUsable: () => boolean;
  readonly cluster: () => ClusterFacts;
  readonly tries?: HostTries;
}

const GOOD_FOR_MS = 10_000;
const FOREIGN_ARCHS = (["x86_64", "aarch64"] as const).filter((arch) => arch !== HOST_ARCH);

export class KeptQemuFacts {
  readonly #deps: KeptQemuFactsDeps;
  #known: HostFacts | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  #asked:
    | { readonly mtime: number | undefined; readonly qemu: QemuKnowledge; readonly ioUring: boolean }
    | undefined;
  /** By path. */
  readonly #foreign = new Map<string, { readonly mtime: number; readonly qemu: QemuKnowledge | undefined }>();

  constructor(deps: KeptQemuFactsDeps) {
    this.#deps = deps;
  }

  /** Resolves when `facts` may be used. */
  fresh(): Promise<void> {
    if (this.#deps.clock.monotonic() - this.#readAt < GOOD_FOR_MS) return Promise.resolve();
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  facts(): HostFacts {
    if (this.#known === undefined)
      throw new AppError("resource.busy", "this host is still being looked at; try again in a moment", {
        pveStatus: 500,
      });
    return { ...this.#known, ...this.#deps.cluster(), kvmUsable: this.#deps.kvmUsable() };
  }

  async #read(): Promise<void> {
    const { node, files, exec, folder, clock } = this.#deps;
    const { qemu, ioUring } = await this.#ask();
    const tries = this.#deps.tries ?? hostTries(folder, exec);
    this.#known = await readHostFacts({
      node,
      files,
      exec,
      folder,
      qemu,
      foreign: await this.#askForeign(),
      kvmUsable: this.#deps.kvmUsable(),
      tries: { vhostNet: tries.vhostNet, ioUring: async () => ioUring },
    });
    this.#readAt = clock.monotonic();
  }

  /** They lie beside the host's own. One that cannot be asked is none, until it is another one. */
  async #askForeign(): Promise<Partial<Record<GuestArch, QemuKnowledge>>> {
    const { files, exec, qemuBinary, log } = this.#deps;
    const found: Partial<Record<GuestArch, QemuKnowledge>> = {};
    for (const arch of FOREIGN_ARCHS) {
      const path = join(dirname(qemuBinary), `qemu-system-${arch}`);
      const mtime = await files.mtime(path);
      if (mtime === undefined) continue;
      let known = this.#foreign.get(path);
      if (known?.mtime !== mtime) {
        const qemu = await askQemu(path, exec).catch((err: unknown) => {
          log.warn({ err: messageOf(err) }, "QEMU cannot be asked what it knows");
          return undefined;
        });
        known = { mtime, qemu };
        this.#foreign.set(path, known);
      }
      if (known.qemu !== undefined) found[arch] = known.qemu;
    }
    return found;
  }

  async #ask(): Promise<{ readonly qemu: QemuKnowledge; readonly ioUring: boolean }> {
    const { files, exec, folder, qemuBinary, log } = this.#deps;
    const mtime = await files.mtime(qemuBinary);
    if (this.#asked !== undefined && this.#asked.mtime === mtime) return this.#asked;
    try {
      const qemu = await askQemu(qemuBinary, exec);
      const ioUring = await (this.#deps.tries ?? hostTries(folder, exec)).ioUring();
      this.#asked = { mtime, qemu, ioUring };
      return this.#asked;
    } catch (err) {
      log.warn({ err: messageOf(err) }, "QEMU cannot be asked what it knows");
      return { qemu: noQemu(qemuBinary), ioUring: false };
    }
  }
}

/** Whoever starts a guest hears that the program is not there. */
function noQemu(binary: string): QemuKnowledge {
  const none: ReadonlySet<string> = new Set();
  return {
    binary,
    version: NO_QEMU,
    package: "",
    machines: [],
    devices: none,
    objects: none,
    commands: none,
  };
}
