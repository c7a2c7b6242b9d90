// The API on a Proxmox host itself, by `pvesh`: root's own, no token, no network.
import { AppError } from "@gpve/contracts/errors.ts";
import { exec as realExec, type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { CallValues, PlatformCalls, Verb } from "./platform-calls.ts";

const commands: Readonly<Record<Verb, string>> = { GET: "get", POST: "create", PUT: "set", DELETE: "delete" };
const TASK_TIMEOUT_MS = 3600_000;

export class PveshCalls implements PlatformCalls {
  readonly isRoot = true;
  readonly #exec: Exec;

  constructor(exec: Exec = realExec) {
    this.#exec = exec;
  }

  async read(path: string, values: CallValues = {}): Promise<unknown> {
    const text = await this.#run("GET", path, values);
    try {
      return text.trim() === "" ? null : (JSON.parse(text) as unknown);
    } catch (cause) {
      throw new AppError("internal.error", `pvesh get ${path} did not print JSON`, { cause });
    }
  }

  async work(verb: Exclude<Verb, "GET">, path: string, values: CallValues = {}): Promise<void> {
    // pvesh waits for the task and ends as it does.
    await this.#run(verb, path, values);
  }

  close(): void {
    // Nothing is open between calls.
  }

  async #run(verb: Verb, path: string, values: CallValues): Promise<string> {
    const options = Object.entries(values).flatMap(([key, value]) => [`--${key}`, textOf(value)]);
    const args = [commands[verb], path, ...options, "--output-format", "json"];
    const result = await this.#exec("pvesh", args, { env: MINIMAL_ENV, timeoutMs: TASK_TIMEOUT_MS });
    return result.stdout;
  }
}

function textOf(value: string | number | boolean): string {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}
