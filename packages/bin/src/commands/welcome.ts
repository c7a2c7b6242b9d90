// The one screen that `up` prints.
import { readJsonFile } from "@gpve/kit/atomic-file.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { RunState } from "../run-state.ts";
import { defaultDataDir } from "./options.ts";

export interface CredentialsFile {
  readonly url: string;
  readonly fingerprint: string;
  readonly caFile: string;
  readonly username: string;
  readonly password: string;
  readonly token: string;
}

export function readCredentials(data: DataDir): CredentialsFile | undefined {
  return readJsonFile(data.file("credentials.json")) as CredentialsFile | undefined;
}

const NOT_ROOT: [string, string] = [
  "Not root",
  "guests have user-mode networks (outward, SSH at a port of 127.0.0.1) and no limits; bridges, host devices and Debian images need root",
];

/** The password is shown to a person only: what is no terminal is a log, as that of a detached `up` or the journal. */
export function welcome(data: DataDir, state: RunState, isTerminal: boolean): string {
  const credentials = readCredentials(data);
  const secrets = data.file("credentials.json");
  const known = credentials?.password ?? "";
  const password = known === "" ? "(the password you know)" : isTerminal ? known : `(password in ${secrets})`;
  const flag = data.path === defaultDataDir() ? "" : ` --data ${data.path}`;
  const isLab = state.node.includes(",");
  const shared = isLab ? " --storage shared --image-storage shared --start" : " --console";
  const rows: [string, string][] = [
    ["URL", state.url],
    ["Fingerprint", credentials?.fingerprint ?? ""],
    ["Login", `${credentials?.username ?? "root@pam"} / ${password}`],
    ["Token", `in ${secrets}`],
    ["Data", data.path],
    ...(process.getuid?.() === 0 ? [] : [NOT_ROOT]),
  ];
  const lines = rows.map(([name, value]) => `  ${name.padEnd(12)} ${value}`);
  return [
    `gpve ${state.version} is running, ${isLab ? "nodes" : "node"} ${state.node}`,
    "",
    ...lines,
    "",
    "Try next:",
    `  ./gpve ctl${flag} node list`,
    `  ./gpve ctl${flag} vm create --image tiny --name demo${shared}`,
    ...(isLab ? [`  ./gpve lab status${flag}`, `  ./gpve down${flag} --guests`] : []),
    `  curl --cacert ${data.file("pki", "ca.crt")} ${state.url}/api2/json/access/domains`,
    "",
  ].join("\n");
}
