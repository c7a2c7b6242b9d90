// The first start: root@pam gets a password of ours and, if wanted, a token for tools on this machine.
import { randomBytes } from "node:crypto";
import type { PasswordHasher, Sealer, TokenSecrets } from "@gpve/domain/access/ports.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { BUILTIN_REALMS, DEFAULT_ROOT } from "@gpve/domain/access/access-directory.ts";
import { realmsDef, tokensDef, usersDef } from "@gpve/domain/access/collections.ts";
import { passwordContext, passwordsDef, tokenSecretContext, tokenSecretsDef } from "./secret-collections.ts";

export interface BootstrapDeps {
  readonly records: Records;
  readonly hasher: PasswordHasher;
  readonly sealer: Sealer;
  readonly secrets: TokenSecrets;
}

export interface BootstrapOptions {
  /** For root@pam when it has none of ours yet. Default: a generated one. */
  readonly rootPassword?: string;
  /**
   * A token of root@pam for tools on this machine, without privilege separation. Its secret is written down by the
   * caller first, so that it cannot be lost; a token of that name gets the new secret.
   */
  readonly token?: { readonly name: string; readonly secret: string };
}

/** What this call changed; what had been there stays as it was. */
export interface BootstrapResult {
  /** Only when it is root@pam's password: it became so now, or an earlier call that did not get to its end made it so. */
  readonly rootPassword?: string;
}

/** Safe to run at every start and by several servers at once. */
export async function bootstrapAccess(
  deps: BootstrapDeps,
  options: BootstrapOptions = {},
): Promise<BootstrapResult> {
  const { records, hasher, sealer, secrets } = deps;
  const password = options.rootPassword ?? randomBytes(15).toString("base64url");
  const { token } = options;
  const known = records.collection(passwordsDef).get(ROOT_USER)?.value;
  const hash = known === undefined ? await hasher.hash(password) : undefined;
  const isKnown =
    known !== undefined &&
    options.rootPassword !== undefined &&
    (await hasher.verify(options.rootPassword, sealer.open(known.sealed, passwordContext(ROOT_USER))));
  const made = await records.transact((tx) => {
    for (const [id, realm] of BUILTIN_REALMS) {
      if (tx.get(realmsDef, id) === undefined) tx.put(realmsDef, id, realm);
    }
    if (tx.get(usersDef, ROOT_USER) === undefined) tx.put(usersDef, ROOT_USER, DEFAULT_ROOT);
    const needsPassword = hash !== undefined && tx.get(passwordsDef, ROOT_USER) === undefined;
    if (needsPassword) {
      tx.put(passwordsDef, ROOT_USER, { sealed: sealer.seal(hash, passwordContext(ROOT_USER)) });
    }
    if (token !== undefined) {
      const authid = `${ROOT_USER}!${token.name}`;
      const made = {
        userid: ROOT_USER,
        tokenid: token.name,
        privsep: false,
        expire: 0,
        comment: "made by gpve",
      };
      tx.put(tokensDef, authid, tx.get(tokensDef, authid)?.value ?? made);
      tx.put(tokenSecretsDef, authid, {
        sealed: sealer.seal(secrets.digest(token.secret), tokenSecretContext(authid)),
      });
    }
    return { password: needsPassword };
  });
  return made.password || isKnown ? { rootPassword: password } : {};
}
