// LVM's programs for one volume group, by argv.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { storageExists, storageMissing } from "@gpve/domain/storage/failures.ts";
import type { StorageWork } from "@gpve/domain/storage/plugin.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { LVS_ARGS, parseLvs, type LogicalVolume } from "./lvm-report.ts";

/** LVM waits for its own locks, and the kernel for a busy disk. */
const TIMEOUT_MS = 10 * 60_000;

export class VolumeGroup {
  readonly name: string;
  readonly #exec: Exec;

  constructor(name: string, exec: Exec) {
    this.name = name;
    this.#exec = exec;
  }

  /** Throws when there is no such group. */
  async volumes(): Promise<LogicalVolume[]> {
    try {
      return parseLvs(await this.#lvm("lvs", [...LVS_ARGS, this.name], {}));
    } catch (err) {
      if (!/not found|Cannot process volume group/.test(messageOf(err))) throw err;
      throw storageMissing(`no such volume group '${this.name}'`);
    }
  }

  async find(logical: string): Promise<LogicalVolume | undefined> {
    return (await this.volumes()).find(({ name }) => name === logical);
  }

  async createThin(logical: string, size: number, pool: string, work: StorageWork): Promise<void> {
    const kib = Math.max(1, Math.ceil(size / 1024));
    await this.#change(
      "lvcreate",
      ["-aly", "-V", `${kib}k`, "--name", logical, "--thinpool", `${this.name}/${pool}`],
      `lvcreate '${this.name}/${logical}' error`,
      work,
    );
  }

  /** Shares all blocks with its origin until one of them is written to. */
  async createThinSnapshot(
    logical: string,
    origin: string,
    options: readonly string[],
    what: string,
    work: StorageWork = {},
  ): Promise<void> {
    await this.#change("lvcreate", ["-n", logical, ...options, "-s", `${this.name}/${origin}`], what, work);
  }

  async remove(logical: string): Promise<void> {
    await this.#change(
      "lvremove",
      ["-f", `${this.name}/${logical}`],
      `lvremove '${this.name}/${logical}' error`,
    );
  }

  async rename(from: string, to: string): Promise<void> {
    const what = `lvrename '${this.name}/${from}' => '${this.name}/${to}' error`;
    await this.#change("lvrename", [this.name, from, to], what);
  }

  async extend(logical: string, size: number, work: StorageWork): Promise<void> {
    await this.#change(
      "lvextend",
      ["-L", `${size}b`, `${this.name}/${logical}`],
      "error resizing volume",
      work,
    );
  }

  /** Also what is marked to be left alone when the group is activated. */
  async activate(logical: string): Promise<void> {
    await this.#change(
      "lvchange",
      ["-ay", "-K", `${this.name}/${logical}`],
      `activating LV '${this.name}/${logical}' failed`,
    );
  }

  async deactivate(logical: string): Promise<void> {
    await this.#change(
      "lvchange",
      ["-an", `${this.name}/${logical}`],
      `deactivating LV '${this.name}/${logical}' failed`,
    );
  }

  /** Not written to and not activated from now on, unless by name. */
  async makeReadOnly(logical: string): Promise<void> {
    await this.#change(
      "lvchange",
      ["-an", "-pr", "-ky", `${this.name}/${logical}`],
      `making LV '${this.name}/${logical}' read-only failed`,
    );
  }

  async #change(
    program: string,
    args: readonly string[],
    what: string,
    work: StorageWork = {},
  ): Promise<void> {
    try {
      await this.#lvm(program, args, work);
    } catch (cause) {
      if (!isAppError(cause, "internal.error")) throw cause;
      const message = `${what}: ${messageOf(cause)}`;
      if (/already exists in volume group/.test(message)) throw storageExists(message);
      const isFull = /insufficient|out of (?:data|metadata) space|no free|free space/i.test(message);
      throw new AppError(isFull ? "capacity.exceeded" : "internal.error", message, { cause, pveStatus: 500 });
    }
  }

  async #lvm(program: string, args: readonly string[], { signal }: StorageWork): Promise<string> {
    const { stdout } = await this.#exec(program, args, { timeoutMs: TIMEOUT_MS, ...given({ signal }) });
    return stdout;
  }
}
