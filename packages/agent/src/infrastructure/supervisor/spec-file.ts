// What a supervisor is told: directives with their values, each word ended by NUL. spec.c reads it.
import { AppError } from "@gpve/contracts/errors.ts";

/** A program in a view of its own. */
export interface ProgramSpec {
  readonly program: string;
  /** Including argv[0]. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** cgroup.procs files the guest joins. */
  readonly cgroupFiles: readonly string[];
  readonly limits: Readonly<Record<string, string>>;
  readonly affinity?: string;
  readonly oomScoreAdj?: number;
  /** As it is in the program's view; absent: `/`. */
  readonly workFolder?: string;
  readonly identity?: { readonly uid: number; readonly gid: number; readonly groups: readonly number[] };
  /** Without root: a user namespace in which the supervisor may mount for its guest. */
  readonly userNamespace?: boolean;
  /** A process namespace: it can name no process but those that it starts. */
  readonly ownPids?: boolean;
  /** A network namespace with nothing in it. */
  readonly ownNetwork?: boolean;
  /** File of a network namespace that is there. */
  readonly network?: string;
  /** The host's own: its programs may have more rights than it, and its files are not hidden. */
  readonly asHost?: boolean;
  /** An empty folder that becomes `/`. */
  readonly root?: string;
  readonly tmpfs: readonly { readonly path: string; readonly size: string }[];
  readonly binds: readonly {
    readonly source: string;
    readonly target: string;
    readonly access: "ro" | "rw";
  }[];
  readonly links: readonly { readonly target: string; readonly path: string }[];
  readonly sockets: readonly { readonly path: string; readonly fd: number }[];
  /** It ends with this process. */
  readonly parent?: number;
}

/** A guest under its supervisor. */
export interface SupervisorSpec extends ProgramSpec {
  readonly stateFile: string;
  readonly exitFile: string;
  readonly logFile: string;
  readonly controlSocket: string;
  /** The guest ends when the deadline in this file passes. */
  readonly guardFile?: string;
  /** Files the supervisor writes itself into, so that it leaves the agent's cgroup. */
  readonly holdFiles: readonly string[];
  readonly taps: readonly {
    readonly name: string;
    readonly bridge: string;
    readonly mtu: number;
    readonly queues: number;
    readonly firstFd: number;
  }[];
  readonly vhost?: { readonly count: number; readonly firstFd: number };
  readonly openFiles: readonly { readonly path: string; readonly access: "ro" | "rw"; readonly fd: number }[];
}

export function renderSpec(spec: ProgramSpec & Partial<SupervisorSpec>): string {
  const words: (string | number)[] = [];
  words.push("exec", spec.program);
  for (const arg of spec.args) words.push("arg", arg);
  for (const [name, value] of Object.entries(spec.env)) words.push("env", `${name}=${value}`);
  for (const [name, path] of [
    ["state", spec.stateFile],
    ["exit", spec.exitFile],
    ["log", spec.logFile],
    ["control", spec.controlSocket],
    ["guard", spec.guardFile],
  ] as const)
    if (path !== undefined) words.push(name, path);
  for (const file of spec.holdFiles ?? []) words.push("hold", file);
  if (spec.parent !== undefined) words.push("parent", spec.parent);
  for (const file of spec.cgroupFiles) words.push("cgroup", file);
  for (const [name, value] of Object.entries(spec.limits)) words.push("limit", name, value);
  if (spec.affinity !== undefined) words.push("affinity", spec.affinity);
  if (spec.oomScoreAdj !== undefined) words.push("oom", spec.oomScoreAdj);
  if (spec.identity !== undefined) {
    words.push("uid", spec.identity.uid, "gid", spec.identity.gid);
    for (const group of spec.identity.groups) words.push("group", group);
  }
  if (spec.userNamespace === true) words.push("userns", "own");
  if (spec.ownPids === true) words.push("pids", "own");
  if (spec.ownNetwork === true) words.push("network", "own");
  if (spec.network !== undefined) words.push("network", spec.network);
  if (spec.asHost === true) words.push("privileges", "host");
  if (spec.root !== undefined) words.push("root", spec.root);
  if (spec.workFolder !== undefined) words.push("chdir", spec.workFolder);
  for (const { path, size } of spec.tmpfs) words.push("tmpfs", path, size);
  for (const { source, target, access } of spec.binds) words.push("bind", source, target, access);
  for (const { target, path } of spec.links) words.push("symlink", target, path);
  for (const tap of spec.taps ?? [])
    words.push("tap", tap.name, tap.bridge, tap.mtu, tap.queues, tap.firstFd);
  if (spec.vhost !== undefined) words.push("vhost", spec.vhost.count, spec.vhost.firstFd);
  for (const { path, fd } of spec.sockets) words.push("listen", path, fd);
  for (const { path, access, fd } of spec.openFiles ?? []) words.push("open", path, access, fd);
  return words.map((word) => `${withoutNul(String(word))}\0`).join("");
}

export function withoutNul(word: string): string {
  if (!word.includes("\0")) return word;
  throw new AppError("request.invalid", "a NUL byte cannot be part of a command line, a path or a name");
}
