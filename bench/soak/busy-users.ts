// What busy users do all day: VMs made, changed, snapshotted, cloned, started, looked at and destroyed again.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bootSector } from "@gpve/agent/testing/boot-sector.ts";
import type { Answer, Api } from "../../test/support/gpve.ts";
import { waitTask } from "../../test/support/tasks.ts";

const TASK_TIMEOUT_MS = 300_000;
/** Every so many rounds the VM is started and stopped, which costs a hundred times what the rest does. */
const START_EVERY = 10;

export interface Busy {
  readonly operations: number;
  readonly failures: readonly string[];
}

export interface BusyOptions {
  readonly api: Api;
  readonly data: string;
  readonly node: string;
  readonly users: number;
  readonly operations: number;
  /** Told now and then how many operations there were. */
  readonly onProgress?: (operations: number) => void;
}

/** Until there were that many operations; each call of the API counts as one, a task with its end. */
export async function busyUsers(options: BusyOptions): Promise<Busy> {
  writeFileSync(join(options.data, "storage/local/import/sleep.raw"), bootSector("deepSleep"));
  const failures: string[] = [];
  let operations = 0;
  const note = (what: string, problem: string | undefined): void => {
    operations++;
    if (problem !== undefined) failures.push(`${what}: ${problem}`);
    if (operations % 500 === 0) options.onProgress?.(operations);
  };
  const user = async (number: number): Promise<void> => {
    for (let round = 0; operations < options.operations; round++)
      await oneRound(options, 10_000 + number * 100, round, note);
  };
  await Promise.all(Array.from({ length: options.users }, (_, number) => user(number)));
  return { operations, failures };
}

async function oneRound(
  { api, node }: BusyOptions,
  vmid: number,
  round: number,
  note: (what: string, problem: string | undefined) => void,
): Promise<void> {
  const guests = `/nodes/${node}/qemu`;
  const vm = `${guests}/${vmid}`;
  const clone = `${guests}/${vmid + 1}`;
  const call = async (
    method: string,
    path: string,
    params: Record<string, string | number> = {},
  ): Promise<void> => {
    const answer = await api(method, path, params);
    note(`${method} ${path}`, await problemOf(api, answer));
  };
  await call("POST", guests, { vmid, memory: 16, scsi0: "local:0,import-from=local:import/sleep.raw" });
  await call("PUT", `${vm}/config`, { cores: 1 + (round % 2), description: `round ${round}` });
  await call("GET", `${vm}/config`);
  if (round % START_EVERY === 0) {
    await call("POST", `${vm}/status/start`);
    await call("GET", `${vm}/status/current`);
    await call("POST", `${vm}/status/stop`);
  }
  await call("POST", `${vm}/clone`, { newid: vmid + 1, full: 1 });
  await call("GET", "/cluster/resources");
  await call("GET", guests);
  await call("DELETE", clone);
  await call("GET", `/nodes/${node}/tasks`);
  await call("DELETE", vm, { purge: 1 });
}

/** undefined = it worked, to the end of its task where there is one. */
async function problemOf(api: Api, { status, text, data }: Answer): Promise<string | undefined> {
  if (status !== 200) return `${status} ${text}`;
  const upid: unknown = data;
  if (typeof upid !== "string" || !upid.startsWith("UPID:")) return undefined;
  const { exitstatus } = await waitTask(api, upid as never, TASK_TIMEOUT_MS);
  return exitstatus === "OK" ? undefined : `the task ended with ${exitstatus ?? "nothing"}`;
}
