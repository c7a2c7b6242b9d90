// `gpve cluster init`: makes the single node of `gpve up` the first of a cluster; `gpve cluster undo` is the way back.
import { existsSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import { parseServerConfiguration } from "@gpve/kit/config/configuration.ts";
import { openDataDir, type DataDir } from "@gpve/kit/data-dir.ts";
import { acquireProcessLock } from "@gpve/kit/process-lock.ts";
import {
  agentFile,
  forgetMember,
  readMember,
  serverFile,
  writeConfig,
  writeMember,
} from "../cluster/member-files.ts";
import { putEtcdAside, putSqliteAside, sqliteFile, toEtcd, toSqlite } from "../cluster/move-store.ts";
import { readConfigFile } from "../config-file.ts";
import { etcdPlaces } from "../etcd/etcd-places.ts";
import { stopEtcd } from "../etcd/etcd-process.ts";
import type { Io } from "../io.ts";
import { isLab } from "../lab/lab-plan.ts";
import { machineName, reachableAddress } from "../machine-names.ts";
import { readRunState } from "../run-state.ts";
import { serverSettings } from "../settings/server-settings.ts";
import { stopProcess } from "./down.ts";
import { commandOptions, dataDirOption, parseListen } from "./options.ts";
import { up } from "./up.ts";

const USAGE = "./gpve cluster init [--name NAME] [--address ADDR], or ./gpve cluster undo";
const AGENT_PORT = 8444;

export async function cluster(args: readonly string[], io: Io): Promise<number> {
  const [verb, ...rest] = args;
  if (verb === "init") return init(rest, io);
  if (verb === "undo") return undo(rest, io);
  throw new AppError("config.invalid", `gpve cluster: ${USAGE}`);
}

async function init(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("cluster init", args, {
    data: { type: "string" },
    name: { type: "string" },
    address: { type: "string" },
    listen: { type: "string" },
    node: { type: "string" },
    "etcd-port": { type: "string" },
    "etcd-peer-port": { type: "string" },
    "agent-port": { type: "string" },
    "no-network": { type: "boolean" },
  });
  const data = openDataDir(dataDirOption(options.data));
  refuse(data);
  const running = readRunState(data);
  const address = options.address ?? reachableAddress("0.0.0.0");
  const listen = parseListen(
    options.listen ?? `0.0.0.0:${running === undefined ? 8006 : new URL(running.url).port}`,
  );
  const node = options.node ?? running?.node ?? machineName();
  const port = (text: string | undefined, usual: number): number =>
    text === undefined ? usual : Number(text);
  const etcd = {
    address,
    port: port(options["etcd-port"], 2379),
    peerPort: port(options["etcd-peer-port"], 2380),
  };
  const agentPort = port(options["agent-port"], AGENT_PORT);
  // A move that was broken off left its own etcd running: that is nobody in the way.
  await stopEtcd(etcdPlaces(data));
  for (const each of [etcd.port, etcd.peerPort, agentPort]) await requireFree(address, each);
  if (running !== undefined) {
    io.err("gpve: server and agent stop; guests run on");
    await stopProcess(running.process, data);
  }
  const lock = acquireProcessLock(data.file("run", "lock"));
  try {
    io.err("gpve: the records are copied to etcd");
    const { count, aside } = await toEtcd(data, node, etcd);
    writeConfig(serverFile(data), {
      apiVersion: "gpve.io/v1",
      kind: "ServerConfiguration",
      dataDir: data.path,
      server: { address: listen.host, port: listen.port, names: [address] },
      cluster: { name: options.name ?? "gpve", etcd: { embedded: true, ...etcd } },
      logging: { output: data.file("log", "gpve.jsonl") },
    });
    rmSync(agentFile(data), { force: true });
    writeMember(data, { node, address, agentPort });
    putSqliteAside(data, aside);
    io.err(`gpve: ${count} records are in etcd and agree with those of SQLite, kept as ${aside}`);
  } finally {
    lock.release();
  }
  const network = options["no-network"] === true ? ["--no-network"] : [];
  const code = await up(["--data", data.path, "--detach", ...network], io);
  io.out(
    [
      "",
      `${node} is the first node of a cluster now.`,
      `  further servers, which become members of etcd until there are three: ./gpve ctl --data ${data.path} server join-command`,
      `  further nodes: ./gpve ctl --data ${data.path} node join-command`,
      `  the way back, while it is the only server: ./gpve cluster undo --data ${data.path}`,
    ].join("\n"),
  );
  return code;
}

async function undo(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("cluster undo", args, {
    data: { type: "string" },
    "no-network": { type: "boolean" },
  });
  const data = openDataDir(dataDirOption(options.data));
  const member = readMember(data);
  if (member === undefined)
    throw new AppError("config.invalid", `${data.path} is of no cluster that ./gpve cluster init made`);
  const { store } = serverSettings(readConfigFile("server", serverFile(data), parseServerConfiguration));
  if (store.type !== "embedded")
    throw new AppError(
      "config.invalid",
      `the store of ${data.path} is not an etcd that gpve runs: use gpvectl store migrate to-sqlite`,
    );
  const running = readRunState(data);
  if (running !== undefined) await stopProcess(running.process, data);
  const lock = acquireProcessLock(data.file("run", "lock"));
  try {
    const { count, aside } = await toSqlite(data, member.node, store);
    forgetMember(data);
    putEtcdAside(data, aside);
    io.err(`gpve: ${count} records are in SQLite again and agree with those of etcd, kept as ${aside}`);
  } finally {
    lock.release();
  }
  const listen = running === undefined ? [] : ["--listen", new URL(running.url).host];
  const network = options["no-network"] === true ? ["--no-network"] : [];
  return up(["--data", data.path, "--node", member.node, "--detach", ...listen, ...network], io);
}

function refuse(data: DataDir): void {
  const says = isLab(data)
    ? "has nodes of its own (up --nodes), which are a cluster already"
    : readMember(data) !== undefined
      ? "is of a cluster already"
      : existsSync(sqliteFile(data))
        ? undefined
        : "has no records in SQLite: start it once with ./gpve up";
  if (says !== undefined) throw new AppError("config.invalid", `${data.path} ${says}; nothing was changed`);
}

/** Before anything stops: what is in the way is told while all runs on. */
async function requireFree(address: string, port: number): Promise<void> {
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host: address, port }, resolve);
    });
  } catch (cause) {
    throw new AppError(
      "config.invalid",
      `cannot listen on ${address}:${port}: ${(cause as Error).message}; nothing was changed. Debian's own etcd is stopped by: systemctl disable --now etcd; other ports: --etcd-port, --etcd-peer-port, --agent-port`,
      { cause },
    );
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}
