// QEMU encrypts the RAM of a guest itself (TLS 1.3 with a key that both ends were told), for one move.
import type { MoveKeys } from "@gpve/domain/guest/move-channel.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { ignore } from "@gpve/kit/background.ts";

const OBJECT = "move-key";
/**
 * AES first: processors have it, and of GnuTLS' own choice for such a key it is ChaCha20, which takes three times as long. QEMU
 * adds what has to do with keys.
 */
const PRIORITY = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305";

/** Rejects where it cannot: one that was built without, for example. */
export async function encryptRam(
  keys: MoveKeys,
  process: QemuProcess,
  key: string,
  endpoint: "client" | "server",
): Promise<void> {
  const { qmp } = process;
  const [{ folder, user }] = await Promise.all([keys.place(process, key), dropObject(process)]);
  const named = endpoint === "client" ? { username: user } : {};
  try {
    await qmp.execute("object-add", {
      "qom-type": "tls-creds-psk",
      id: OBJECT,
      dir: folder,
      endpoint,
      priority: PRIORITY,
      ...named,
    });
    if (endpoint === "server") await qmp.execute("migrate-set-parameters", encryptedParameters(true));
  } catch (err) {
    await keys.remove(process.id, process);
    throw err;
  }
  // Whoever is connected to reads it when somebody comes.
  if (endpoint === "client") await keys.remove(process.id, process);
}

/** For `migrate-set-parameters`. A QEMU that came in one way may leave in another, or be written to a file. */
export function encryptedParameters(isEncrypted: boolean): Readonly<Record<string, string>> {
  // Whom it speaks to it knows by the key; a name is wanted all the same.
  return { "tls-creds": isEncrypted ? OBJECT : "", "tls-hostname": isEncrypted ? "gpve" : "" };
}

/** It is of no use any more. */
export async function forgetKey(keys: MoveKeys | undefined, process: QemuProcess): Promise<void> {
  if (keys === undefined || process.hasExited) return;
  try {
    await process.qmp.execute("migrate-set-parameters", encryptedParameters(false));
  } catch (err) {
    ignore(err, "one that cannot encrypt has nothing to forget");
  }
  await dropObject(process);
  await keys.remove(process.id, process);
}

async function dropObject({ qmp }: QemuProcess): Promise<void> {
  await qmp
    .execute("object-del", { id: OBJECT })
    .catch((err: unknown) => ignore(err, "mostly there is none"));
}
