// `gpve up`: server and agent as one process on this machine, or several nodes with --nodes.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { openDataDir, type DataDir } from "@gpve/kit/data-dir.ts";
import { inheritedEnv } from "@gpve/kit/own-program-env.ts";
import { identify, isAlive } from "@gpve/kit/process-identity.ts";
import { acquireProcessLock } from "@gpve/kit/process-lock.ts";
import { spawnDetached } from "@gpve/kit/spawn.ts";
import { readMember, serverFile } from "../cluster/member-files.ts";
import { upMember } from "../cluster/up-member.ts";
import { startNode } from "../compose-node.ts";
import type { Io } from "../io.ts";
import { clearRunState, readRunState, writeRunState, type RunState } from "../run-state.ts";
import { isLab, parseNodeCount } from "../lab/lab-plan.ts";
import { upLab } from "../lab/up-lab.ts";
import { selfCommand } from "../self-command.ts";
import { untilSignalled } from "../until-signalled.ts";
import { commandOptions, dataDirOption, DEFAULT_LISTEN, formatUrl, parseListen } from "./options.ts";
import { welcome } from "./welcome.ts";
import { lastWords } from "./why-not-started.ts";

const START_TIMEOUT_MS = 60_000;
/** Nine processes where there is otherwise one. */
const LAB_START_TIMEOUT_MS = 300_000;
/** What says something of one node. */
const SINGLE_OPTIONS = ["metrics", "no-network", "node", "otlp"] as const;

export async function up(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("up", args, {
    data: { type: "string" },
    listen: { type: "string" },
    detach: { type: "boolean" },
    metrics: { type: "string" },
    "no-network": { type: "boolean" },
    node: { type: "string" },
    nodes: { type: "string" },
    otlp: { type: "string" },
  });
  const listen = parseListen(options.listen ?? DEFAULT_LISTEN);
  const count = parseNodeCount(options.nodes);
  const data = openDataDir(dataDirOption(options.data));
  const hasNodes = count !== undefined || isLab(data);
  if (hasNodes) refuseSingle(options);
  if (readMember(data) !== undefined) sayWhere(options, data, io);
  const running = readRunState(data);
  if (running !== undefined) {
    if (options.listen !== undefined && running.url !== formatUrl(listen)) {
      io.err(`gpve: already running at ${running.url}; run ./gpve down first to listen elsewhere`);
    }
    io.out(welcome(data, running, io.isTerminal));
    return 0;
  }
  if (options.detach === true)
    return detach(data, args, io, hasNodes ? LAB_START_TIMEOUT_MS : START_TIMEOUT_MS);

  const lock = acquireProcessLock(data.file("run", "lock"));
  try {
    const member = readMember(data);
    const makeNetwork = options["no-network"] !== true;
    const node = hasNodes
      ? await upLab(data, { count, listen }, io)
      : member !== undefined
        ? await upMember(data, member, { makeNetwork })
        : await startNode({
            data,
            listen,
            metrics: options.metrics === undefined ? undefined : parseListen(options.metrics),
            nodeName: options.node,
            otlpEndpoint: options.otlp,
            makeNetwork,
          });
    const state = {
      url: formatUrl({ host: node.host ?? listen.host, port: node.port }),
      node: node.name,
      startedAt: new Date().toISOString(),
      version: PRODUCT_VERSION,
      ...given({ metricsUrl: node.metricsUrl }),
    };
    writeRunState(data, state);
    const self = readRunState(data);
    if (self !== undefined) io.out(welcome(data, self, io.isTerminal));
    const stopped = await untilSignalled(() => node.stop());
    clearRunState(data);
    return stopped;
  } finally {
    lock.release();
  }
}

/** A node of a cluster has them in its files. */
function sayWhere(options: Readonly<Record<string, unknown>>, data: DataDir, io: Io): void {
  const named = ["listen", "metrics", "node", "otlp"].filter((name) => options[name] !== undefined);
  if (named.length > 0)
    io.err(
      `gpve: --${named.join(", --")} is not looked at: ${data.path} is of a cluster, see ${serverFile(data)}`,
    );
}

function refuseSingle(options: Readonly<Record<string, unknown>>): void {
  const found = SINGLE_OPTIONS.filter((name) => options[name] !== undefined);
  if (found.length > 0)
    throw new AppError("config.invalid", `--${found.join(", --")} cannot be used with several nodes`);
}

/** Starts this same command again in its own session and waits until it is ready. */
async function detach(data: DataDir, args: readonly string[], io: Io, timeoutMs: number): Promise<number> {
  const logFile = data.file("log", "gpve.log");
  const words = lastWords(data.path, logFile);
  const child = [...selfCommand(), "up", "--data", data.path, ...withoutOptions(args)];
  const [file = "", ...rest] = child;
  const pid = spawnDetached(file, rest, {
    logFile,
    cwd: "/",
    env: inheritedEnv(process.env, (name) => INHERITED.test(name)),
  });
  const identity = identify(pid);
  const state = await untilReady(data, timeoutMs, () => identity !== undefined && isAlive(identity));
  if (state === undefined) {
    throw new AppError("internal.error", words.tell());
  }
  io.out(welcome(data, state, io.isTerminal));
  return 0;
}

async function untilReady(
  data: DataDir,
  timeoutMs: number,
  alive: () => boolean,
): Promise<RunState | undefined> {
  const end = performance.now() + timeoutMs;
  while (performance.now() < end) {
    const state = readRunState(data);
    if (state !== undefined) return state;
    if (!alive()) return undefined;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  return undefined;
}

/** The child's argv says --data itself and must not detach again. */
function withoutOptions(args: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? "";
    if (arg === "--detach" || arg.startsWith("--data=")) continue;
    if (arg === "--data") at++;
    else kept.push(arg);
  }
  return kept;
}

/** What the documentation names, and what ways to the outside need; nothing else of the caller's shell. */
const INHERITED =
  /^(PATH|HOME|LANG|TZ|XDG_CACHE_HOME|GPVE_COMPONENTS|GO(PROXY|SUMDB|CACHE|MODCACHE)|(https?|no)_proxy|SSL_CERT_(FILE|DIR))$/i;
