// The disks of this host: sysfs, udev and the tools of whoever may own a disk.
import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { DiskHost } from "./disk-inventory.ts";
import type { OwnerReports } from "./disk-owners.ts";

export interface LinuxDiskHostDeps {
  readonly exec: Exec;
  /** Where tests keep theirs. */
  readonly sys?: string;
  readonly mounts?: string;
}

const TOOL_MS = 10_000;
/** A disk that sleeps takes its time to wake. */
const SMART_MS = 30_000;
/** smartctl sets the lower two bits when it could not ask; the others tell of the disk. */
const ASKED = Array.from({ length: 256 }, (_each, code) => code).filter((code) => (code & 3) === 0);

export class LinuxDiskHost implements DiskHost {
  readonly #exec: Exec;
  readonly #sys: string;
  readonly #mounts: string;

  constructor({ exec, sys = "/sys/block", mounts = "/proc/mounts" }: LinuxDiskHostDeps) {
    this.#exec = exec;
    this.#sys = sys;
    this.#mounts = mounts;
  }

  blockDevices(): readonly string[] {
    return this.sysNames("");
  }

  sysLine(path: string): string | undefined {
    return readOr(join(this.#sys, path), undefined)?.split("\n")[0]?.trim();
  }

  sysNames(path: string): readonly string[] {
    try {
      return readdirSync(join(this.#sys, path));
    } catch (err) {
      ignore(err, "not every device has every folder");
      return [];
    }
  }

  isRemote(name: string): boolean {
    try {
      return /host[^/]*\/session[^/]*/.test(readlinkSync(join(this.#sys, name)));
    } catch (err) {
      ignore(err, "a folder and no link: it is nobody else's");
      return false;
    }
  }

  /** Without udev's tool a disk has at least its name. */
  async udev(name: string): Promise<string> {
    const output = await this.#output("udevadm", ["info", "-p", join(this.#sys, name), "--query", "all"]);
    return output === "" ? `E: DEVTYPE=disk\nE: DEVNAME=/dev/${name.replace("!", "/")}\n` : output;
  }

  async owners(): Promise<OwnerReports> {
    const [lsblk, pvs, lvs, zpool] = await Promise.all([
      this.#output("lsblk", ["--json", "-o", "path,parttype,fstype"]),
      this.#output("pvs", ["--noheadings", "--readonly", "-o", "pv_name"]),
      this.#output("lvs", [
        "-S",
        "lv_name=~^osd-",
        "-o",
        "devices,lv_name,lv_tags",
        "--noheadings",
        "--readonly",
        "--separator",
        ";",
      ]),
      this.#output("zpool", ["list", "-HPLv"]),
    ]);
    return { lsblk, pvs, lvs, zpool, mounts: this.#mountedDevices() };
  }

  async smart(devpath: string, healthOnly: boolean): Promise<string> {
    const args = ["-H", ...(healthOnly ? [] : ["-A", "-f", "brief"]), devpath];
    const { stdout } = await this.#exec("smartctl", args, { timeoutMs: SMART_MS, okCodes: ASKED });
    return stdout;
  }

  /** Links such as /dev/disk/by-uuid/... stand for the device they lead to. */
  #mountedDevices(): string {
    return (readOr(this.#mounts, "") ?? "")
      .split("\n")
      .filter((line) => line.startsWith("/dev/"))
      .map((line) => line.replace(/^\S+/, (device) => realPath(device)))
      .join("\n");
  }

  /** "" when the tool is not installed or fails: then nothing of its kind is known. */
  async #output(file: string, args: readonly string[]): Promise<string> {
    try {
      return (await this.#exec(file, args, { timeoutMs: TOOL_MS })).stdout;
    } catch (err) {
      ignore(err, `what ${file} would know is left out`);
      return "";
    }
  }
}

function readOr<T>(path: string, otherwise: T): string | T {
  try {
    return readFileSync(path, "utf8");
  } catch (err) {
    ignore(err, "not every device has every file");
    return otherwise;
  }
}

function realPath(device: string): string {
  try {
    return realpathSync(device);
  } catch (err) {
    ignore(err, "mounted once, gone now");
    return device;
  }
}
