// Reading for a moment: a file that only root or another guest may read gets a group that nothing but image tools have,
// while somebody needs it. Should we die meanwhile, it keeps a group that nobody is in.
import { ignore } from "@gpve/kit/background.ts";
import { withHeldFile, type HeldFile } from "@gpve/kit/held-file.ts";
import { GUESTS_GROUP } from "../guest-process/shared-files.ts";

export const TOOL_GROUP = 0x3fff_ffff;
const OTHERS_READ = 0o004;
const GROUP_READ = 0o040;

interface Before {
  readonly gid: number;
  readonly mode: number;
  readers: number;
}

export class ReadableFiles {
  /** By device and inode: several tools may read the same image. */
  readonly #lent = new Map<string, Before>();
  /** One after the other: nobody begins to read what another is just giving back. */
  #turn: Promise<unknown> = Promise.resolve();

  /** Lets that user read it. Resolves to what gives it back. */
  lend(path: string, uid: number): Promise<() => Promise<void>> {
    return this.#inTurn(() => this.#lend(path, uid));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch((err: unknown) => ignore(err, "told to who asked"));
    return result;
  }

  #lend(path: string, uid: number): Promise<() => Promise<void>> {
    return withHeldFile(path, async (file) => {
      const key = keyOf(file);
      const mode = file.facts.mode & 0o7777;
      const known = this.#lent.get(key);
      if (known !== undefined) known.readers += 1;
      else if (isReadable(file, uid)) return () => Promise.resolve();
      else {
        await file.chown(-1, TOOL_GROUP);
        await file.chmod(mode | GROUP_READ);
        this.#lent.set(key, { gid: file.facts.gid, mode, readers: 1 });
      }
      return () => this.#inTurn(() => this.#giveBack(path, key));
    });
  }

  async #giveBack(path: string, key: string): Promise<void> {
    const before = this.#lent.get(key);
    if (before === undefined || --before.readers > 0) return;
    this.#lent.delete(key);
    await withHeldFile(path, async (file) => {
      // A guest that got it meanwhile keeps it.
      if (keyOf(file) !== key || file.facts.gid !== TOOL_GROUP) return;
      await file.chown(-1, before.gid);
      await file.chmod(before.mode);
    }).catch((err: unknown) => ignore(err, "the file was removed meanwhile"));
  }
}

function isReadable({ facts }: HeldFile, uid: number): boolean {
  if (facts.uid === uid) return (facts.mode & 0o400) !== 0;
  if ((facts.mode & OTHERS_READ) !== 0) return true;
  return (facts.mode & GROUP_READ) !== 0 && [TOOL_GROUP, GUESTS_GROUP].includes(facts.gid);
}

function keyOf({ facts }: HeldFile): string {
  return `${facts.dev}:${facts.ino}`;
}
