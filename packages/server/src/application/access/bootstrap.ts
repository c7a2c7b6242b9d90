// The first start: root@pam gets a password of ours and, if wanted, a token for tools on this machine.
import { randomBytes } from "node:crypto";
import type { PasswordHasher, Sealer, TokenSecrets } from "@gpve/domain/access/ports.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { BUILTIN_REALMS, DEFAULT_ROOT } from "./access-directory.ts";
import {
  passwordContext,
  passwordsDef,
  realmsDef,
  tokenSecretContext,
  tokenSecretsDef,
  tokensDef,
  usersDef,
} from "./collections.ts";

export const UP_TOKEN = `${ROOT_USER}!up`;

export interface BootstrapDeps {
  readonly records: Records;
  readonly hasher: PasswordHasher;
  readonly sealer: Sealer;
  readonly secrets: TokenSecrets;
}

export interface BootstrapOptions {
  /** Default: a generated one. */
  readonly rootPassword?: string;
  readonly createUpToken?: boolean;
}

/** Each secret only when it was made by this call; it cannot be read again. */
export interface BootstrapResult {
  readonly rootPassword?: string;
  readonly upToken?: { readonly authid: string; readonly secret: string };
}

/** Safe to run at every start and by several servers at once: what exists stays as it is. */
export async function bootstrapAccess(
  deps: BootstrapDeps,
  options: BootstrapOptions = {},
): Promise<BootstrapResult> {
  const { records, hasher, sealer, secrets } = deps;
  const password = options.rootPassword ?? randomBytes(15).toString("base64url");
  const secret = secrets.generate();
  const wantsToken = options.createUpToken === true;
  const known = records.collection(passwordsDef).get(ROOT_USER) !== undefined;
  const hash = known ? undefined : await hasher.hash(password);
  const made = await records.transact((tx) => {
    for (const [id, realm] of BUILTIN_REALMS) {
      if (tx.get(realmsDef, id) === undefined) tx.put(realmsDef, id, realm);
    }
    if (tx.get(usersDef, ROOT_USER) === undefined) tx.put(usersDef, ROOT_USER, DEFAULT_ROOT);
    const needsPassword = hash !== undefined && tx.get(passwordsDef, ROOT_USER) === undefined;
    if (needsPassword) {
      tx.put(passwordsDef, ROOT_USER, { sealed: sealer.seal(hash, passwordContext(ROOT_USER)) });
    }
    const needsToken = wantsToken && tx.get(tokensDef, UP_TOKEN) === undefined;
    if (needsToken) {
      tx.put(tokensDef, UP_TOKEN, {
        userid: ROOT_USER,
        tokenid: "up",
        privsep: false,
        expire: 0,
        comment: "made by gpve up",
      });
      tx.put(tokenSecretsDef, UP_TOKEN, {
        sealed: sealer.seal(secrets.digest(secret), tokenSecretContext(UP_TOKEN)),
      });
    }
    return { password: needsPassword, token: needsToken };
  });
  return {
    ...(made.password ? { rootPassword: password } : {}),
    ...(made.token ? { upToken: { authid: UP_TOKEN, secret } } : {}),
  };
}
