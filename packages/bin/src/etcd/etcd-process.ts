// The process of this server's member. It outlives the server, whose restart is nothing to the others, and is started
// again by it when it has ended.
import { existsSync, rmSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { readFileTail } from "@gpve/kit/file-tail.ts";
import { identify, isAlive, type ProcessIdentity } from "@gpve/kit/process-identity.ts";
import { spawnDetached } from "@gpve/kit/spawn.ts";
import { endProcess } from "../long-lived-process.ts";
import { clientUrl, peerUrl, type EmbeddedEtcdSettings, type EtcdPlaces } from "./etcd-places.ts";

const PROGRAMS = ["/usr/bin/etcd", "/usr/local/bin/etcd", "/usr/sbin/etcd"];
const STOP_PATIENCE_MS = 10_000;
const LAST_WORDS_BYTES = 1_500;
/**
 * On a node whose guests take all they can get the other members wait for this one, and with them whoever changes anything: a
 * guest that moves stands still until they have agreed on whose it is.
 */
const PRIORITY = -10;
/** etcd's own limit is 2 GiB; it advises against more than this. */
const QUOTA_BYTES = 8 * 1024 ** 3;

interface Note {
  readonly process: ProcessIdentity;
  readonly command: readonly string[];
}

export interface MemberStart {
  readonly name: string;
  readonly settings: EmbeddedEtcdSettings;
  /** "name=peer URL" of all members with this one; read by etcd at its first start only. */
  readonly initial: readonly string[];
  readonly isNew: boolean;
}

export function runningEtcd(places: EtcdPlaces): ProcessIdentity | undefined {
  const note = readJsonFile(places.note) as Note | undefined;
  return note !== undefined && isAlive(note.process) ? note.process : undefined;
}

/** Starts it unless it runs as it should; one that was started otherwise is replaced. */
export async function startEtcd(places: EtcdPlaces, member: MemberStart): Promise<void> {
  const command = commandOf(places, member);
  const running = runningEtcd(places);
  if (running !== undefined) {
    const note = readJsonFile(places.note) as Note;
    if (lasting(note.command).join(" ") === lasting(command).join(" ")) return;
    await stopEtcd(places);
  }
  const [file = "", ...args] = command;
  const how = { logFile: places.log, cwd: "/", env: { ...MINIMAL_ENV }, priority: PRIORITY };
  const pid = spawnDetached(file, args, how);
  const identity = identify(pid);
  if (identity !== undefined)
    writeFileAtomic(places.note, `${JSON.stringify({ process: identity, command })}\n`);
}

export async function stopEtcd(places: EtcdPlaces): Promise<boolean> {
  const running = runningEtcd(places);
  if (running === undefined) return false;
  await endProcess(running, STOP_PATIENCE_MS);
  rmSync(places.note, { force: true });
  return true;
}

export function lastWordsOfEtcd(places: EtcdPlaces): string {
  return `the last lines of ${places.log}:\n${readFileTail(places.log, LAST_WORDS_BYTES).trim()}`;
}

function commandOf(places: EtcdPlaces, { name, settings, initial, isNew }: MemberStart): string[] {
  const program = PROGRAMS.find((path) => existsSync(path));
  if (program === undefined)
    throw new AppError(
      "config.invalid",
      "cluster.etcd.embedded needs the program etcd: apt-get install etcd-server, then start this server again",
    );
  const options = {
    name,
    "data-dir": places.data,
    "listen-client-urls": clientUrl(settings),
    "advertise-client-urls": clientUrl(settings),
    "listen-peer-urls": peerUrl(settings),
    "initial-advertise-peer-urls": peerUrl(settings),
    "trusted-ca-file": places.caFile,
    "cert-file": places.certFile,
    "key-file": places.keyFile,
    "peer-trusted-ca-file": places.caFile,
    "peer-cert-file": places.certFile,
    "peer-key-file": places.keyFile,
    "quota-backend-bytes": QUOTA_BYTES,
    logger: "zap",
    "log-level": "warn",
    "initial-cluster": initial.join(","),
    "initial-cluster-state": isNew ? "new" : "existing",
  };
  const flags = ["--client-cert-auth", "--peer-client-cert-auth", "--strict-reconfig-check"];
  return [program, ...flags, ...Object.entries(options).map(([key, value]) => `--${key}=${value}`)];
}

/** What counts after the first start. */
function lasting(command: readonly string[]): readonly string[] {
  return command.filter((word) => !word.startsWith("--initial-cluster"));
}
