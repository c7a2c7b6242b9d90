import { alreadyThere, missing, parameterError } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { joinTokenid, requireUserid, listedNames } from "@gpve/domain/access/ids.ts";
import { noSuchUser } from "@gpve/domain/access/permission-check.ts";
import type { Sealer, TokenSecrets } from "@gpve/domain/access/ports.ts";
import type { Token } from "@gpve/domain/access/types.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { removeAclEntries } from "./acl.ts";
import { tokensDef } from "@gpve/domain/access/collections.ts";
import { tokenSecretContext, tokenSecretsDef } from "./secret-collections.ts";
import { prefixed } from "./prefixed.ts";

export interface TokenFields {
  readonly privsep?: boolean | undefined;
  readonly expire?: number | undefined;
  readonly comment?: string | undefined;
}

export interface NewToken {
  readonly authid: string;
  readonly token: Token;
  /** Shown this once. */
  readonly secret: string;
}

export interface TokensDeps {
  readonly records: Records;
  readonly directory: AccessDirectory;
  readonly sealer: Sealer;
  readonly secrets: TokenSecrets;
}

export class Tokens {
  readonly #deps: TokensDeps;

  constructor(deps: TokensDeps) {
    this.#deps = deps;
  }

  list(userid: string): Token[] {
    this.#requireUser(userid);
    return [...this.#deps.directory.model().tokens.values()].filter((token) => token.userid === userid);
  }

  get(userid: string, tokenid: string): Token {
    this.#requireUser(userid);
    const token = this.#deps.directory.model().tokens.get(joinTokenid(userid, tokenid));
    if (token === undefined) throw noSuchToken(userid, tokenid);
    return token;
  }

  async create(userid: string, tokenid: string, input: TokenFields): Promise<NewToken> {
    this.#requireUser(userid);
    const authid = joinTokenid(userid, tokenid);
    if (this.#deps.directory.model().tokens.has(authid))
      throw parameterError({ tokenid: "Token already exists." });
    const token: Token = {
      userid,
      tokenid,
      privsep: input.privsep ?? true,
      expire: input.expire ?? 0,
      ...(input.comment === undefined || input.comment === "" ? {} : { comment: input.comment }),
    };
    const secret = this.#deps.secrets.generate();
    await prefixed("generating token failed", () =>
      this.#deps.records.transact((tx) => {
        if (tx.get(tokensDef, authid) !== undefined) throw alreadyThere("Token already exists.");
        tx.put(tokensDef, authid, token);
        this.#putSecret(tx, authid, secret);
      }),
    );
    return { authid, token, secret };
  }

  /** `secret` in the answer only when it was made anew. */
  async update(
    userid: string,
    tokenid: string,
    input: TokenFields & { readonly remove?: string | undefined; readonly regenerate?: boolean | undefined },
  ): Promise<{ token: Token; authid: string; secret?: string }> {
    this.get(userid, tokenid);
    const authid = joinTokenid(userid, tokenid);
    const removed = listedNames(input.remove);
    const unknown = removed.find((name) => name !== "comment" && name !== "expire");
    if (unknown !== undefined) throw parameterError({ delete: `unable to delete '${unknown}'` });
    const secret = input.regenerate === true ? this.#deps.secrets.generate() : undefined;
    const token = await prefixed("updating token info failed", () =>
      this.#deps.records.transact((tx) => {
        const entry = tx.get(tokensDef, authid);
        if (entry === undefined) throw noSuchToken(userid, tokenid);
        const { comment: oldComment, ...old } = entry.value;
        const comment = removed.includes("comment") ? undefined : input.comment || oldComment;
        const next: Token = {
          ...old,
          privsep: input.privsep ?? old.privsep,
          expire: input.expire ?? (removed.includes("expire") ? 0 : old.expire),
          ...given({ comment }),
        };
        tx.put(tokensDef, authid, next);
        if (secret !== undefined) this.#putSecret(tx, authid, secret);
        return next;
      }),
    );
    return { token, authid, ...given({ secret }) };
  }

  async remove(userid: string, tokenid: string): Promise<void> {
    this.get(userid, tokenid);
    const authid = joinTokenid(userid, tokenid);
    await prefixed("deleting token failed", () =>
      this.#deps.records.transact((tx) => {
        if (tx.get(tokensDef, authid) === undefined) throw noSuchToken(userid, tokenid);
        tx.delete(tokensDef, authid);
        tx.delete(tokenSecretsDef, authid);
        removeAclEntries(tx, ({ type, ugid }) => type === "token" && ugid === authid);
      }),
    );
  }

  #putSecret(tx: Tx, authid: string, secret: string): void {
    const digest = this.#deps.secrets.digest(secret);
    tx.put(tokenSecretsDef, authid, { sealed: this.#deps.sealer.seal(digest, tokenSecretContext(authid)) });
  }

  #requireUser(userid: string): void {
    requireUserid(userid);
    if (!this.#deps.directory.model().users.has(userid)) throw noSuchUser(userid);
  }
}

function noSuchToken(userid: string, tokenid: string): Error {
  return missing(`no such token '${tokenid}' for user '${userid}'`);
}
