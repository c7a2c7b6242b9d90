// Image tools as root runs them: each run as a user that nobody else is, without capabilities and network, with bounded
// memory, processes and CPU, in a view that holds the program, its libraries and the files it is named. Without root they
// run as ourselves in the same view, by a user namespace.
//
//   agent --spec by stdin--> gpve-supervisor tool --view, uid, limits--> qemu-img
import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { MINIMAL_ENV, type Exec } from "@gpve/kit/exec.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { isExecutable } from "../host/executable.ts";
import type { ToolCgroups, ToolGroup } from "../cgroup/tool-cgroups.ts";
import { programView } from "../guest-process/guest-view.ts";
import { GUESTS_GROUP } from "../guest-process/shared-files.ts";
import { renderSpec } from "../supervisor/spec-file.ts";
import { politely, type ImageTools, type ToolFile, type ToolOptions } from "./image-tools.ts";
import { ReadableFiles, TOOL_GROUP } from "./readable-files.ts";
import { ToolUids } from "./tool-uids.ts";

export interface ConfinedToolsDeps {
  readonly exec: Exec;
  /** The supervisor's binary. */
  readonly supervisor: () => Promise<string>;
  /** An empty folder on which each tool's own `/` is mounted, in its own namespace. */
  readonly root: string;
  /** undefined = we are not root. */
  readonly cgroups: ToolCgroups | undefined;
}

const LIMITS = { as: 8 * 1024 ** 3, nofile: 2048, core: 0 };
const MOST_TRIES = 5;
/** sd_listen_fds(3): the first descriptor after the standard ones. */
const LISTEN_FD = 3;

export function confinedTools(deps: ConfinedToolsDeps): ImageTools {
  const uids = new ToolUids();
  const readable = new ReadableFiles();
  const runOnce: ImageTools = async (program, args, files, options = {}) => {
    mkdirSync(deps.root, { recursive: true, mode: 0o700 });
    const path = findProgram(program);
    const supervisor = await deps.supervisor();
    const undo: (() => Promise<void> | void)[] = [];
    const { cgroups } = deps;
    const ownUser = async (): Promise<{ readonly uid: number; readonly group: ToolGroup } | undefined> => {
      if (cgroups === undefined) return undefined;
      const uid = uids.take();
      undo.push(() => uids.free(uid));
      for (const { path: lent, access } of files) undo.push(await readable.lend(lent, access));
      const { workFolder } = options.fetching ?? {};
      if (workFolder !== undefined) await withHeldFile(workFolder, ({ chown }) => chown(uid, uid));
      const group = cgroups.open();
      undo.push(() => group.close());
      return { uid, group };
    };
    try {
      const user = await ownUser();
      const { limits: _l, socket: _s, diesWithUs: _d, fetching: _f, ionice, ...rest } = options;
      const [first, ...words] = [...politely(ionice), supervisor, "tool"];
      const place = { uid: user?.uid, root: deps.root, cgroupFiles: user?.group.files ?? [], options };
      const spec = specOf(path, args, files, place);
      return await deps
        .exec(first, words, { ...rest, input: spec, label: program })
        .catch(async (err: unknown) => {
          const isFull = user?.group.ranOutOfMemory() === true;
          if (isFull) throw tooMuchMemory(program, cgroups?.memoryBytes ?? 0, err);
          const isRefused = user !== undefined && messageOf(err).includes("Permission denied");
          const lent = isRefused ? files.map((file) => file.path) : [];
          throw (await readable.isTakenBack(lent))
            ? new TakenBack("its file was taken back", { cause: err })
            : err;
        });
    } finally {
      for (const back of undo.toReversed()) await back();
    }
  };
  return async (...asked) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await runOnce(...asked);
      } catch (err) {
        if (!(err instanceof TakenBack)) throw err;
        // It could not open its file, so it has done nothing yet.
        if (tries === MOST_TRIES) throw err.cause;
      }
    }
  };
}

/** The tool failed, and what it was lent is no longer to be opened by tools. */
class TakenBack extends Error {}

function tooMuchMemory(program: string, bytes: number, cause: unknown): AppError {
  return new AppError(
    "capacity.exceeded",
    `${program} took more memory than image tools may (${bytes / 1024 ** 2} MiB): the image may be made to do that; do not use it`,
    { cause, pveStatus: 500 },
  );
}

function specOf(
  program: string,
  args: readonly string[],
  files: readonly ToolFile[],
  place: {
    readonly uid: number | undefined;
    readonly root: string;
    readonly cgroupFiles: readonly string[];
    readonly options: ToolOptions;
  },
): string {
  const { uid, root, cgroupFiles } = place;
  const { limits, socket, diesWithUs, fetching } = place.options;
  const view = programView(program, fetching?.reads);
  const work = fetching === undefined ? [] : [{ path: fetching.workFolder, access: "rw" } as const];
  return renderSpec({
    program,
    args: [basename(program), ...args],
    env: {
      ...MINIMAL_ENV,
      TMPDIR: "/tmp",
      ...(socket === undefined ? {} : { LISTEN_FDS: "1" }),
      ...fetching?.env,
    },
    cgroupFiles,
    limits: Object.fromEntries(
      Object.entries({ ...LIMITS, ...limits }).map(([name, value]) => [name, String(value)]),
    ),
    ...(uid === undefined
      ? { userNamespace: true }
      : { identity: { uid, gid: uid, groups: [TOOL_GROUP, GUESTS_GROUP] } }),
    ownPids: true,
    ownNetwork: fetching === undefined,
    root,
    ...(diesWithUs === true ? { parent: process.pid } : {}),
    tmpfs: [{ path: "/tmp", size: "1m" }],
    binds: [
      ...view.binds,
      ...[...files, ...work].map(({ path, access }) => ({ source: path, target: path, access })),
    ],
    links: view.links,
    sockets: socket === undefined ? [] : [{ path: socket, fd: LISTEN_FD }],
  });
}

function findProgram(name: string): string {
  const folders = (MINIMAL_ENV["PATH"] ?? "").split(":");
  const found = folders.map((folder) => join(folder, name)).find(isExecutable);
  if (found !== undefined) return found;
  throw new AppError("feature.unsupported", `cannot run ${name}: it is not installed`, {
    data: { file: name },
  });
}
