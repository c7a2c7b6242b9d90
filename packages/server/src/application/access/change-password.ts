import { parameterError, refused } from "@gpve/domain/request/failures.ts";
import { permissionDenied } from "@gpve/domain/access/access-view.ts";
import { requireUserid } from "@gpve/domain/access/ids.ts";
import { noSuchUser } from "@gpve/domain/access/permission-check.ts";
import { isActive } from "@gpve/domain/access/privileges.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { ROOT_USER, isRoot } from "@gpve/domain/request/context.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import type { LoginLimiter } from "./login-limiter.ts";
import type { Passwords } from "./passwords.ts";
import type { RealmLogins } from "./realm-logins.ts";

export interface ChangePasswordDeps {
  readonly directory: AccessDirectory;
  readonly passwords: Passwords;
  readonly realms: RealmLogins;
  readonly limiter: LoginLimiter;
}

export class ChangePassword {
  readonly #deps: ChangePasswordDeps;

  constructor(deps: ChangePasswordDeps) {
    this.#deps = deps;
  }

  /** Everyone but root@pam confirms with the password he has himself. */
  async run(
    input: { readonly userid: string; readonly password: string; readonly confirmation?: string | undefined },
    ctx: RequestContext,
  ): Promise<void> {
    const { directory, passwords } = this.#deps;
    const { actor } = ctx;
    const { userid, realm } = requireUserid(input.userid);
    const user = directory.model().users.get(userid);
    if (user === undefined) throw noSuchUser(userid);
    if (actor === undefined) throw permissionDenied();
    if (!isRoot(actor)) {
      if (userid === ROOT_USER) throw permissionDenied();
      await this.#confirm(actor.userid, input.confirmation, ctx);
      if (actor.authid === userid) {
        if (!isActive(user, directory.nowSeconds())) throw refused(`user '${userid}' is disabled`);
      } else if (realm === "pam") {
        // Accounts of the host are their owners' and root's business.
        throw permissionDenied();
      }
    }
    await passwords.set(userid, input.password, ctx.signal);
    ctx.log.info({ user: userid, by: actor.authid }, "changed password");
  }

  async #confirm(userid: string, password: string | undefined, ctx: RequestContext): Promise<void> {
    const { limiter, realms } = this.#deps;
    if (password === undefined) {
      throw parameterError({ "confirmation-password": "password is required to modify user" });
    }
    const failure = await limiter.guard(userid, ctx.clientAddress, async () => {
      // Whoever is asked for more has the password; who he is, his ticket has shown.
      const step = await realms.begin(userid, password, ctx.signal);
      return step.kind === "refused" ? step.reason : undefined;
    });
    if (failure !== undefined) throw refused("invalid credentials");
  }
}
