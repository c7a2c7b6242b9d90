// Keys by which the QEMUs of a move know each other, where QEMU wants them: in a folder. It is the agent's, and each guest sees
// its own alone and may read nothing else there. A key is good for one move and goes with it.
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { MoveKeys } from "@gpve/domain/guest/move-channel.ts";
import { ignore } from "@gpve/kit/background.ts";

const KEY_BYTES = 32;
/** Whom both ends name. */
const USER = "gpve";
/**
 * The group ffdhe2048 of RFC 7919. TLS 1.3, which is all that is spoken, has its groups from elsewhere; but without this file
 * QEMU makes up a group at its start.
 */
const GROUP = `-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
`;

export class FolderMoveKeys implements MoveKeys {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  newKey(): string {
    return randomBytes(KEY_BYTES).toString("hex");
  }

  async place(
    process: GuestProcess,
    key: string,
  ): Promise<{ readonly folder: string; readonly user: string }> {
    await this.remove(process.id, process);
    const folder = this.#of(process.id);
    await mkdir(join(this.#folder, process.id), { recursive: true, mode: 0o711 });
    await mkdir(folder, { mode: 0o700 });
    await writeFile(join(folder, "keys.psk"), `${USER}:${key}\n`, { mode: 0o600, flag: "wx" });
    await writeFile(join(folder, "dh-params.pem"), GROUP, { mode: 0o600, flag: "wx" });
    await process.allowFile({ path: folder, access: "ro", owned: true, deep: true });
    return { folder, user: USER };
  }

  async remove(id: string, process?: GuestProcess): Promise<void> {
    const folder = this.#of(id);
    if (!existsSync(folder)) return;
    if (process?.hasExited === false)
      await process.forbidFile(folder).catch((err: unknown) => ignore(err, "mostly there is none"));
    await rm(folder, { recursive: true, force: true });
  }

  #of(id: string): string {
    return join(this.#folder, id, "tls");
  }
}
