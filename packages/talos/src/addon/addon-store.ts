// Sources of add-ons that were fetched, by their checksum, and which of them each add-on is held to. Written at the first
// fetch; nothing but a version in the file or `addons update` changes it. It lies in .deployer/<cluster>/addons.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { Ajv2020 } from "ajv/dist/2020.js";
import { type Static, Type } from "typebox";
import { lockPath } from "../folder/lock-file.ts";

const lockedSchema = Type.Record(
  Type.String(),
  Type.Object({
    version: Type.String(),
    kind: Type.Enum(["manifest", "chart"]),
    source: Type.String(),
    sha256: Type.String({ pattern: "^[0-9a-f]{64}$" }),
    at: Type.String(),
  }),
);

export type LockedAddons = Static<typeof lockedSchema>;
export type LockedAddon = LockedAddons[string];

export const sha256Of = (bytes: Uint8Array | string): string =>
  createHash("sha256").update(bytes).digest("hex");

export const addonLockPath = (folder: string, cluster: string): string =>
  join(dirname(lockPath(folder, cluster)), "addons", "addon-lock.json");

export class AddonStore {
  readonly #lock: string;

  constructor(folder: string, cluster: string) {
    this.#lock = addonLockPath(folder, cluster);
  }

  /** Where things are kept; made when needed. */
  get folder(): string {
    return dirname(this.#lock);
  }

  locked(): LockedAddons {
    const text = readTextFile(this.#lock);
    if (text === undefined) return {};
    const tree = parsed(text);
    if (isLocked(tree)) return tree;
    throw new AppError("config.invalid", `${this.#lock} is no lock of add-ons that can be read`, {
      data: { finding: "lock-damaged", next: "Take it from a backup. It was left as it is." },
    });
  }

  lock(name: string, entry: LockedAddon | undefined): void {
    const { [name]: _old, ...others } = this.locked();
    const next = entry === undefined ? others : { ...others, [name]: entry };
    const sorted = Object.fromEntries(Object.entries(next).toSorted(([a], [b]) => (a < b ? -1 : 1)));
    this.#write(this.#lock, `${JSON.stringify(sorted, null, 2)}\n`);
  }

  /** undefined: it is not there, or no longer what it was. */
  bytes(sha256: string): Buffer | undefined {
    try {
      const bytes = readFileSync(join(this.folder, sha256));
      return sha256Of(bytes) === sha256 ? bytes : undefined;
    } catch {
      return undefined;
    }
  }

  keep(bytes: Uint8Array): string {
    const sha256 = sha256Of(bytes);
    this.#write(join(this.folder, sha256), bytes);
    return sha256;
  }

  /** A chart need not render to the same twice: what was rendered is kept for its inputs. */
  rendered(key: string): string | undefined {
    return readTextFile(join(this.folder, `${key}.yaml`));
  }

  keepRendered(key: string, text: string): void {
    this.#write(join(this.folder, `${key}.yaml`), text);
  }

  #write(path: string, content: string | Uint8Array): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    writeFileAtomic(path, content);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const validate = new Ajv2020().compile(lockedSchema);
const isLocked = (tree: unknown): tree is LockedAddons => validate(tree);
