// Volume groups, thin pools, ZFS pools and mounted disks of the host.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { parsePoolStatus, type PoolStatus } from "./zpool-status.ts";

type Row = Readonly<Record<string, unknown>>;
type LvmRow = Readonly<Record<string, string | undefined>>;

const TOOL_MS = 10_000;
const POOL_FIELDS = ["name", "size", "alloc", "free", "frag", "dedup", "health"] as const;

export class VolumeManagers {
  readonly #exec: Exec;
  readonly #units: string;

  constructor({ exec, units = "/etc/systemd/system" }: { readonly exec: Exec; readonly units?: string }) {
    this.#exec = exec;
    this.#units = units;
  }

  async volumeGroups(): Promise<Row> {
    const rows = await this.#lvm("vgs", "vg_name,vg_size,vg_free,lv_count,pv_name,pv_size,pv_free");
    const byName = new Map<string, readonly LvmRow[]>();
    for (const row of rows) {
      const name = row["vg_name"] ?? "";
      byName.set(name, [...(byName.get(name) ?? []), row]);
    }
    const children = [...byName]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, volumes]) => ({
        name,
        leaf: false,
        size: Number(volumes[0]?.["vg_size"]),
        free: Number(volumes[0]?.["vg_free"]),
        lvcount: Number(volumes[0]?.["lv_count"]),
        children: volumes.map((row) => ({
          name: row["pv_name"],
          leaf: true,
          size: Number(row["pv_size"]),
          free: Number(row["pv_free"]),
        })),
      }));
    return { leaf: false, children };
  }

  async thinPools(): Promise<readonly Row[]> {
    const rows = await this.#lvm(
      "lvs",
      "vg_name,lv_name,lv_size,data_percent,metadata_percent,lv_metadata_size",
      ["-S", "lv_attr=~^t"],
    );
    return rows.map((row) => {
      const share = (size: string, percent: string): number =>
        Math.trunc((Number(row[size]) * Number(row[percent])) / 100);
      return {
        vg: row["vg_name"],
        lv: row["lv_name"],
        lv_size: Number(row["lv_size"]),
        used: share("lv_size", "data_percent"),
        metadata_size: Number(row["lv_metadata_size"]),
        metadata_used: share("lv_metadata_size", "metadata_percent"),
      };
    });
  }

  /** PVE always has the tools of ZFS; a host without them has no pools. */
  async zpools(): Promise<readonly Row[]> {
    const text = await this.#zpool(["list", "-HpPLo", POOL_FIELDS.join(",")], "");
    return text
      .split("\n")
      .filter((line) => line.trim() !== "")
      .map((line) => {
        const values = line.trim().split(/\s+/);
        return Object.fromEntries(
          POOL_FIELDS.map((field, at) => {
            const value = values[at] ?? "";
            // A pool that is away has "-" for its figures.
            return [field, field === "name" || field === "health" ? value : Number.parseFloat(value) || 0];
          }),
        );
      });
  }

  async zpool(name: string): Promise<PoolStatus> {
    return parsePoolStatus(await this.#zpool(["status", "-P", "--", name]));
  }

  /** Disks that PVE's way of making a directory storage mounted: a unit for each, below /mnt/pve. */
  directories(): readonly Row[] {
    return unitNames(this.#units).map(([file, storage]) => {
      const unitfile = join(this.#units, file);
      const text = readFileSync(unitfile, "utf8");
      const mount = /^\[Mount\]$([^[]*)/m.exec(text)?.[1] ?? "";
      const value = (key: string): string | undefined =>
        new RegExp(`^\\s*${key}=(.*)$`, "m").exec(mount)?.[1]?.trim();
      return {
        unitfile,
        path: `/mnt/pve/${unescapeUnit(storage)}`,
        device: value("What"),
        type: value("Type"),
        options: value("Options"),
      };
    });
  }

  async #lvm(tool: "vgs" | "lvs", fields: string, more: readonly string[] = []): Promise<readonly LvmRow[]> {
    const format = ["--readonly", "--reportformat", "json", "--units", "b", "--nosuffix"];
    try {
      const { stdout } = await this.#exec(tool, [...format, ...more, "-o", fields], { timeoutMs: TOOL_MS });
      const report = JSON.parse(stdout) as {
        report?: readonly Readonly<Record<string, readonly LvmRow[]>>[];
      };
      return report.report?.flatMap((part) => Object.values(part).flat()) ?? [];
    } catch (err) {
      if (!isNotInstalled(err)) throw err;
      ignore(err, "a host without LVM has no volume groups");
      return [];
    }
  }

  async #zpool(args: readonly string[], otherwise?: string): Promise<string> {
    try {
      return (await this.#exec("zpool", args, { timeoutMs: TOOL_MS })).stdout;
    } catch (err) {
      if (!isNotInstalled(err)) throw err;
      if (otherwise !== undefined) return otherwise;
      throw new AppError("internal.error", "zfsutils-linux not installed", { cause: err });
    }
  }
}

function isNotInstalled(err: unknown): boolean {
  return isAppError(err) && err.code === "feature.unsupported";
}

function unitNames(folder: string): readonly (readonly [file: string, storage: string])[] {
  try {
    return readdirSync(folder)
      .toSorted()
      .flatMap((file) => {
        const storage = /^mnt-pve-(.+)\.mount$/.exec(file)?.[1];
        return storage === undefined ? [] : [[file, storage] as const];
      });
  } catch (err) {
    ignore(err, "a host without systemd has no units");
    return [];
  }
}

/** systemd writes "-" for a slash and \x2d for a dash. */
function unescapeUnit(name: string): string {
  return name
    .replaceAll("-", "/")
    .replace(/\\x([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
