import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { OpenServer } from "@gpve/server/compose.ts";
import { readCredentials } from "./commands/welcome.ts";

/** Secrets made at the first start are readable here and nowhere else; later starts keep what is written. */
export function rememberCredentials(data: DataDir, url: string, server: OpenServer): void {
  const { rootPassword, upToken } = server.bootstrapped;
  const before = readCredentials(data);
  // A further server of a cluster made no secrets and has none to tell.
  if (before === undefined && rootPassword === undefined && upToken === undefined) return;
  const credentials = {
    url,
    fingerprint: server.pki.serverTls().fingerprint,
    caFile: server.pki.caFile,
    username: "root@pam",
    password: rootPassword ?? before?.password ?? "",
    token: upToken === undefined ? (before?.token ?? "") : `${upToken.authid}=${upToken.secret}`,
  };
  writeFileAtomic(data.file("credentials.json"), `${JSON.stringify(credentials, undefined, 2)}\n`);
}
