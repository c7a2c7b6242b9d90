// Working on a file for a moment: one that only root or a guest may open gets a group that nothing but image tools have,
// while some tool needs it. Its owner stays, and a tool that may only read it has it mounted so. Should we die meanwhile, it
// keeps a group that nobody is in.
import { AppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { withHeldFile, type HeldFile } from "@gpve/kit/held-file.ts";
import { GUESTS_GROUP } from "../guest-process/shared-files.ts";

export const TOOL_GROUP = 0x3fff_ffff;
const OTHERS_READ = 0o004;
const GROUP_ACCESS = { ro: 0o040, rw: 0o060 } as const;

type Access = keyof typeof GROUP_ACCESS;

interface Before {
  readonly gid: number;
  readonly mode: number;
  users: number;
}

export class ReadableFiles {
  /** By device and inode: several tools may read the same image. */
  readonly #lent = new Map<string, Before>();
  /** One after the other: nobody begins to read what another is just giving back. */
  #turn: Promise<unknown> = Promise.resolve();

  /** Lets tools open it. Resolves to what gives it back. */
  lend(path: string, access: Access): Promise<() => Promise<void>> {
    return this.#inTurn(() => this.#lend(path, access));
  }

  /** Whether tools can no longer open one: on a shared storage another node gives back what it has lent as well. */
  async isTakenBack(paths: readonly string[]): Promise<boolean> {
    for (const path of paths) {
      const isOpen = await withHeldFile(path, async (file) => isReadable(file)).catch((err: unknown) => {
        ignore(err, "it is gone, which is another failure");
        return true;
      });
      if (!isOpen) return true;
    }
    return false;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch((err: unknown) => ignore(err, "told to who asked"));
    return result;
  }

  #lend(path: string, access: Access): Promise<() => Promise<void>> {
    return withHeldFile(path, async (file) => {
      const { facts } = file;
      if (access === "rw" && !facts.isFile() && !facts.isBlockDevice())
        throw new AppError("request.invalid", `${path} is no plain file: no tool writes to it`);
      const key = keyOf(file);
      const mode = facts.mode & 0o7777;
      const wanted = mode | GROUP_ACCESS[access];
      const known = this.#lent.get(key);
      if (known !== undefined) known.users += 1;
      else if (access === "ro" && isReadable(file)) return () => Promise.resolve();
      else {
        await file.chown(-1, TOOL_GROUP);
        this.#lent.set(key, { gid: facts.gid, mode, users: 1 });
      }
      if (mode !== wanted) await file.chmod(wanted);
      return () => this.#inTurn(() => this.#giveBack(path, key));
    });
  }

  async #giveBack(path: string, key: string): Promise<void> {
    const before = this.#lent.get(key);
    if (before === undefined || --before.users > 0) return;
    this.#lent.delete(key);
    await withHeldFile(path, async (file) => {
      // A guest that got it meanwhile keeps it.
      if (keyOf(file) !== key || file.facts.gid !== TOOL_GROUP) return;
      await file.chown(-1, before.gid);
      await file.chmod(before.mode);
    }).catch((err: unknown) => ignore(err, "the file was removed meanwhile"));
  }
}

function isReadable({ facts }: HeldFile): boolean {
  if ((facts.mode & OTHERS_READ) !== 0) return true;
  return (facts.mode & GROUP_ACCESS.ro) !== 0 && [TOOL_GROUP, GUESTS_GROUP].includes(facts.gid);
}

function keyOf({ facts }: HeldFile): string {
  return `${facts.dev}:${facts.ino}`;
}
