// A data directory of `gpve up` whose node is of a cluster: it has the configuration of its server and of its agent.
import { existsSync, rmSync } from "node:fs";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";

/** Whose node it is; there = the records are in etcd. */
export interface MemberNote {
  readonly node: string;
  /** Where servers reach its agent. */
  readonly address: string;
  readonly agentPort: number;
}

export const serverFile = (data: DataDir): string => data.file("server.yaml");
export const agentFile = (data: DataDir): string => data.file("agent.yaml");
const noteFile = (data: DataDir): string => data.file("cluster.json");

export function readMember(data: DataDir): MemberNote | undefined {
  return existsSync(noteFile(data)) ? (readJsonFile(noteFile(data)) as MemberNote) : undefined;
}

/** The moment from which the records are in etcd. */
export function writeMember(data: DataDir, note: MemberNote): void {
  writeFileAtomic(noteFile(data), `${JSON.stringify(note)}\n`);
}

export function forgetMember(data: DataDir): void {
  rmSync(noteFile(data), { force: true });
}

/** JSON is YAML. */
export function writeConfig(file: string, config: object): void {
  writeFileAtomic(file, `${JSON.stringify(config, undefined, 2)}\n`);
}
