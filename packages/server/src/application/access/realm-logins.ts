// The realms there are, as logins see them: `pve` has passwords of ours, `pam` those of the host. root@pam has one of ours
// as well, so that a fresh installation can be entered; the host's own is accepted after it.
import { parseUserid } from "@gpve/domain/access/ids.ts";
import type { HostAccounts } from "@gpve/domain/access/ports.ts";
import type { Challenge, LoginStep, LoginUser, RealmLogin } from "@gpve/domain/access/realm-login.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import type { Passwords } from "./passwords.ts";

type OwnPasswords = Pick<Passwords, "matches">;

const REFUSED: LoginStep = { kind: "refused", reason: "invalid credentials" };
const NEVER_ASKED: LoginStep = { kind: "refused", reason: "the realm asks for nothing but a password" };

export class PveRealmLogin implements RealmLogin {
  readonly #passwords: OwnPasswords;

  constructor(passwords: OwnPasswords) {
    this.#passwords = passwords;
  }

  async begin({ userid }: LoginUser, password: string): Promise<LoginStep> {
    return (await this.#passwords.matches(userid, password)) ? { kind: "in" } : REFUSED;
  }

  async answer(): Promise<LoginStep> {
    return NEVER_ASKED;
  }
}

export class PamRealmLogin implements RealmLogin {
  readonly #passwords: OwnPasswords;
  readonly #host: Pick<HostAccounts, "authenticate">;

  constructor(passwords: OwnPasswords, host: Pick<HostAccounts, "authenticate">) {
    this.#passwords = passwords;
    this.#host = host;
  }

  async begin({ userid, name }: LoginUser, password: string, signal?: AbortSignal): Promise<LoginStep> {
    if (userid === ROOT_USER && (await this.#passwords.matches(userid, password))) return { kind: "in" };
    const answer = await this.#host.authenticate(name, password, signal);
    return answer.ok ? { kind: "in" } : { kind: "refused", reason: answer.reason };
  }

  async answer(): Promise<LoginStep> {
    return NEVER_ASKED;
  }
}

export interface RealmLoginsDeps {
  readonly directory: AccessDirectory;
  /** By the realm's type. */
  readonly types: Readonly<Record<string, RealmLogin>>;
}

export class RealmLogins {
  readonly #deps: RealmLoginsDeps;

  constructor(deps: RealmLoginsDeps) {
    this.#deps = deps;
  }

  begin(userid: string, password: string, signal?: AbortSignal): Promise<LoginStep> {
    return this.#with(userid, async (realm, user) =>
      password === "" ? { kind: "refused", reason: "no password" } : realm.begin(user, password, signal),
    );
  }

  answer(userid: string, challenge: Challenge, text: string, signal?: AbortSignal): Promise<LoginStep> {
    return this.#with(userid, (realm, user) => realm.answer(user, challenge, text, signal));
  }

  async #with(
    userid: string,
    run: (realm: RealmLogin, user: LoginUser) => Promise<LoginStep>,
  ): Promise<LoginStep> {
    const parsed = parseUserid(userid);
    const type = this.#deps.directory.model().realms.get(parsed?.realm ?? "")?.type;
    if (parsed === undefined || type === undefined)
      return { kind: "refused", reason: "the realm does not exist" };
    const realm = Object.hasOwn(this.#deps.types, type) ? this.#deps.types[type] : undefined;
    if (realm === undefined)
      return { kind: "refused", reason: `realms of type '${type}' cannot let anybody in yet` };
    return run(realm, { userid, name: parsed.name });
  }
}
