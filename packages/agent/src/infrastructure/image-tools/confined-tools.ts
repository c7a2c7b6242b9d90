// Image tools as root runs them: each as the guest whose image it is, or as a user that nobody else is, without
// capabilities and network, in a view that holds the program, its libraries and the files it is named.
//
//   agent --spec by stdin--> gpve-supervisor tool --view, uid, limits--> qemu-img
import { accessSync, constants, mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { MINIMAL_ENV, type Exec } from "@gpve/kit/exec.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { FIRST_GUEST_UID } from "../guest-process/guest-uid.ts";
import { programView } from "../guest-process/guest-view.ts";
import { GUESTS_GROUP } from "../guest-process/shared-files.ts";
import { renderSpec } from "../supervisor/spec-file.ts";
import { politely, type ImageTools, type ToolFile, type ToolOptions } from "./image-tools.ts";
import { ReadableFiles, TOOL_GROUP } from "./readable-files.ts";

export interface ConfinedToolsDeps {
  readonly exec: Exec;
  /** The supervisor's binary. */
  readonly supervisor: () => Promise<string>;
  /** An empty folder on which each tool's own `/` is mounted, in its own namespace. */
  readonly root: string;
}

/** Below the guests', whose users begin at 0x40000000. */
const FIRST_TOOL_UID = 0x3fff_0000;
const TOOL_UIDS = 0xff00;
const LIMITS = { as: 8 * 1024 ** 3, nofile: 2048, core: 0 };
/** sd_listen_fds(3): the first descriptor after the standard ones. */
const LISTEN_FD = 3;

export function confinedTools(deps: ConfinedToolsDeps): ImageTools {
  let used = 0;
  const readable = new ReadableFiles();
  return async (program, args, files, options = {}) => {
    mkdirSync(deps.root, { recursive: true, mode: 0o700 });
    const path = findProgram(program);
    const supervisor = await deps.supervisor();
    const uid = (await guestOf(files)) ?? FIRST_TOOL_UID + (used++ % TOOL_UIDS);
    const undo: (() => Promise<void>)[] = [];
    try {
      for (const file of files)
        undo.push(file.access === "ro" ? await readable.lend(file.path, uid) : await giveTo(file.path, uid));
      const { limits: _limits, socket: _socket, diesWithUs: _dies, ionice, ...rest } = options;
      const [first, ...words] = [...politely(ionice), supervisor, "tool"];
      const spec = specOf(path, args, files, { uid, root: deps.root, options });
      return await deps.exec(first, words, { ...rest, input: spec, label: program });
    } finally {
      for (const back of undo.toReversed()) await back();
    }
  };
}

function specOf(
  program: string,
  args: readonly string[],
  files: readonly ToolFile[],
  { uid, root, options }: { readonly uid: number; readonly root: string; readonly options: ToolOptions },
): string {
  const { limits, socket, diesWithUs } = options;
  const view = programView(program);
  return renderSpec({
    program,
    args: [basename(program), ...args],
    env: { ...MINIMAL_ENV, TMPDIR: "/tmp", ...(socket === undefined ? {} : { LISTEN_FDS: "1" }) },
    cgroupFiles: [],
    limits: Object.fromEntries(
      Object.entries({ ...LIMITS, ...limits }).map(([name, value]) => [name, String(value)]),
    ),
    identity: { uid, gid: uid, groups: [TOOL_GROUP, GUESTS_GROUP] },
    ownNetwork: true,
    root,
    ...(diesWithUs === true ? { parent: process.pid } : {}),
    tmpfs: [{ path: "/tmp", size: "1m" }],
    binds: [...view.binds, ...files.map(({ path, access }) => ({ source: path, target: path, access }))],
    links: view.links,
    sockets: socket === undefined ? [] : [{ path: socket, fd: LISTEN_FD }],
  });
}

/** Whose image it is: the one that is written, else the first. */
async function guestOf(files: readonly ToolFile[]): Promise<number | undefined> {
  const main = files.find(({ access }) => access === "rw") ?? files[0];
  if (main === undefined) return undefined;
  const uid = await withHeldFile(main.path, ({ facts }) => Promise.resolve(facts.uid));
  return uid >= FIRST_GUEST_UID ? uid : undefined;
}

/** Lets that user write it; resolves to what takes it back. */
function giveTo(path: string, uid: number): Promise<() => Promise<void>> {
  return withHeldFile(path, async ({ facts, chown }) => {
    if (!facts.isFile() && !facts.isBlockDevice())
      throw new AppError("request.invalid", `${path} is no plain file: no tool writes to it`);
    if (facts.uid === uid) return () => Promise.resolve();
    await chown(uid, -1);
    return () => takeBack(path, uid, facts);
  });
}

/** A tool that replaced the file left one of its own there. */
function takeBack(path: string, uid: number, before: { readonly uid: number }): Promise<void> {
  return withHeldFile(path, async ({ facts, chown }) => {
    if (facts.uid === uid) await chown(before.uid, -1);
  }).catch((err: unknown) => ignore(err, "the file was removed meanwhile"));
}

function findProgram(name: string): string {
  const folders = (MINIMAL_ENV["PATH"] ?? "").split(":");
  const found = folders.map((folder) => join(folder, name)).find(isExecutable);
  if (found !== undefined) return found;
  throw new AppError("feature.unsupported", `cannot run ${name}: it is not installed`, {
    data: { file: name },
  });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch (err) {
    ignore(err, "in another folder, or nowhere");
    return false;
  }
}
