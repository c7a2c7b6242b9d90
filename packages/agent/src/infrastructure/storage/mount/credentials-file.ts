// Who logs in at a share, for mount.cifs: a file that only root reads, and that is gone when it was read.
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { credentialsText, type NetworkMount } from "@gpve/domain/storage/network-mount.ts";

export async function withCredentials(
  folder: string,
  storage: string,
  login: NonNullable<NetworkMount["login"]>,
  password: string,
  use: (file: string) => Promise<void>,
): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, `${storage}.cifs`);
  await rm(file, { force: true });
  try {
    await writeFile(file, credentialsText(login, password), { mode: 0o600, flag: "wx" });
    await use(file);
  } finally {
    await rm(file, { force: true });
  }
}
