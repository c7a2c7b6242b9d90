// The API on a Proxmox host itself, by `pvesh`: root's own, no token, no network.
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { pveText } from "@gpve/client/pve-encoding.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { upidNode } from "@gpve/client/task-wait.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { exec as realExec, type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { CallValues, PlatformCalls, UploadValues, Verb } from "./platform-calls.ts";

const commands: Readonly<Record<Verb, string>> = { GET: "get", POST: "create", PUT: "set", DELETE: "delete" };
/** The only place from which Proxmox VE takes files. */
const SPOOL = "/var/tmp";
const TASK_TIMEOUT_MS = 3600_000;
/** As the API says it of a guest that is not there. */
const NO_GUEST = /Configuration file '[^']*' does not exist/;

export class PveshCalls implements PlatformCalls {
  readonly isRoot = true;
  readonly #exec: Exec;
  readonly #env: Readonly<Record<string, string>>;
  readonly #spool: string;

  /** `dataDir`: of a gpve that is not where pvesh looks by itself. */
  constructor(exec: Exec = realExec, dataDir?: string, spool = SPOOL) {
    this.#exec = exec;
    this.#spool = spool;
    this.#env = { ...MINIMAL_ENV, ...given({ GPVE_DATA: dataDir }) };
  }

  async read(path: string, values: CallValues = {}): Promise<unknown> {
    return this.#tree("GET", path, values);
  }

  async make(path: string, values: CallValues = {}): Promise<unknown> {
    return this.#tree("POST", path, values);
  }

  async #tree(verb: Verb, path: string, values: CallValues): Promise<unknown> {
    const text = await this.#run(verb, path, values);
    try {
      return text.trim() === "" ? null : (JSON.parse(text) as unknown);
    } catch (cause) {
      throw new AppError("internal.error", `pvesh ${commands[verb]} ${path} did not print JSON`, { cause });
    }
  }

  async work(verb: Exclude<Verb, "GET">, path: string, values: CallValues = {}): Promise<void> {
    const text = await this.#run(verb, path, values);
    // pvesh waits for the task, but on Proxmox VE it ends well even when the task did not. Its log comes first.
    const upid = /^"?(UPID:[^:\s]+:[^"\s]*)"?\s*$/m.exec(text.trimEnd().split("\n").at(-1) ?? "")?.[1];
    if (upid === undefined) return;
    const status = await this.read(`/nodes/${upidNode(upid)}/tasks/${upid}/status`);
    const exit = isObject(status) ? String(status["exitstatus"]) : "unexpected status";
    if (exit !== "OK" && !exit.startsWith("WARNINGS")) {
      throw new AppError("operation.failed", exit, { data: { upid } });
    }
  }

  async upload(path: string, values: UploadValues, file: string): Promise<void> {
    if (this.#env["GPVE_DATA"] !== undefined) {
      // There a command may not name files of the server.
      throw new AppError("feature.unsupported", "images are uploaded to gpve over its API: use type: gpve", {
        data: { finding: "image-upload-impossible" },
      });
    }
    const copy = join(this.#spool, `pveupload-${randomBytes(16).toString("hex")}`);
    try {
      await copyFile(file, copy, constants.COPYFILE_FICLONE);
      await this.work("POST", path, { ...values, tmpfilename: copy });
    } finally {
      await rm(copy, { force: true });
    }
  }

  close(): void {
    // Nothing is open between calls.
  }

  async #run(verb: Verb, path: string, values: CallValues): Promise<string> {
    const options = Object.entries(values).flatMap(([key, value]) => [`--${key}`, pveText(value)]);
    const args = [commands[verb], path, ...options, "--output-format", "json"];
    try {
      return (await this.#exec("pvesh", args, { env: this.#env, timeoutMs: TASK_TIMEOUT_MS })).stdout;
    } catch (err) {
      // It ends with the same code whatever happened.
      if (!isAppError(err) || !NO_GUEST.test(err.message)) throw err;
      throw new AppError("object.not_found", err.message, { cause: err, data: err.data });
    }
  }
}
