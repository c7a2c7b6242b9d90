// A cluster of several nodes on this machine, as `./gpve up --nodes` makes it, and what it leaves behind.
import { given } from "@gpve/contracts/given.ts";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import {
  apiOf,
  mainFile,
  nodeBinary,
  nodeOptions,
  readCredentials,
  type Api,
  type Credentials,
} from "./gpve.ts";

export interface LabCredentials extends Credentials {
  readonly urls: readonly string[];
  readonly nodes: readonly string[];
}

export interface NodeState {
  readonly node: string;
  readonly power: "on" | "off" | "frozen";
  readonly network: "up" | "cut";
  readonly running: readonly string[];
  readonly processes: number;
}

export interface TestLab {
  readonly data: string;
  readonly credentials: () => LabCredentials;
  /** At `--listen`, or at one server. */
  readonly api: (url?: string) => Api;
  readonly gpve: (...args: string[]) => Promise<string>;
  readonly fault: (verb: string, node: string, ...more: string[]) => Promise<string>;
  readonly states: () => Promise<readonly NodeState[]>;
  readonly remove: () => Promise<void>;
}

export function newLab(env: Readonly<Record<string, string>> = {}): TestLab {
  const data = mkdtempSync(join(tmpdir(), "gpve-lab-"));
  const gpve = async (command: string, ...args: string[]): Promise<string> => {
    const argv = [...nodeOptions, mainFile, command, "--data", data, ...args];
    const whole = { ...MINIMAL_ENV, HOME: "/root", ...env };
    return (await exec(nodeBinary, argv, { timeoutMs: 300_000, env: whole })).stdout;
  };
  const credentials = (): LabCredentials => readCredentials(data) as LabCredentials;
  return {
    data,
    credentials,
    api: (url) => apiOf({ ...credentials(), ...given({ url }) }),
    gpve: (command = "", ...args) => gpve(command, ...args),
    fault: (verb, node, ...more) => gpve("lab", verb, node, ...more),
    states: async () => JSON.parse(await gpve("lab", "status", "--output", "json")) as readonly NodeState[],
    async remove() {
      await gpve("down", "--guests");
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** Everything on this machine that carries one of the ids, or the directory's path. */
export async function tracesOf(data: string): Promise<string[]> {
  const ids = ["", ...readdirSync(join(data, "nodes"))].map((name) => {
    const folder = name === "" ? data : join(data, "nodes", name);
    return (JSON.parse(readFileSync(join(folder, "instance.json"), "utf8")) as { instanceId: string })
      .instanceId;
  });
  const known = [data, ...ids];
  const isOurs = (text: string): boolean => known.some((mark) => text.includes(mark));
  const lines = async (file: string, ...args: string[]): Promise<string[]> =>
    (await exec(file, args, { okCodes: [0, 1] })).stdout.split("\n").filter(isOurs);
  const processes = readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      const text = readFileSync(`/proc/${pid}/cmdline`, "utf8") + readFileSync(`/proc/${pid}/cgroup`, "utf8");
      return isOurs(text) ? [`process ${pid}: ${text.replaceAll("\0", " ")}`] : [];
    } catch {
      return []; // it has just ended
    }
  });
  return [
    ...processes,
    ...(await lines("ip", "netns", "list")),
    ...(await lines("ip", "-o", "link", "show")),
    ...(await lines("nft", "list", "tables")),
    ...(await lines("find", "/sys/fs/cgroup", "-maxdepth", "2", "-name", "gpve-*")),
    ...readFileSync("/proc/self/mountinfo", "utf8").split("\n").filter(isOurs),
  ];
}
