// POST /access/ticket: a password, or a still valid ticket, becomes a new ticket. Every failure looks the same
// from outside; the reason goes to the log. A realm may ask for more first: then the answer is a signed challenge, which
// comes back with what was asked for.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { normalizeAclPath } from "@gpve/domain/access/acl-path.ts";
import { parseUserid, listedNames } from "@gpve/domain/access/ids.ts";
import type { TicketService } from "@gpve/domain/access/ports.ts";
import type { Challenge, LoginStep } from "@gpve/domain/access/realm-login.ts";
import { isActive } from "@gpve/domain/access/privileges.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import type { Capabilities } from "./capabilities.ts";
import { capabilities } from "./capabilities.ts";
import type { LoginLimiter } from "./login-limiter.ts";
import type { RealmLogins } from "./realm-logins.ts";

export interface LoginInput {
  readonly username: string;
  readonly realm?: string | undefined;
  readonly password: string;
  readonly otp?: string | undefined;
  readonly tfaChallenge?: string | undefined;
  /** Verify mode: only say whether the user has these privileges there. */
  readonly path?: string | undefined;
  readonly privs?: string | undefined;
}

export interface LoginResult {
  readonly username: string;
  readonly ticket?: string;
  readonly csrfToken?: string;
  /** Nobody is let in yet: `ticket` is the challenge. */
  readonly needsMore?: true;
  readonly cap?: Capabilities;
  readonly clusterName?: string;
}

export interface LoginDeps {
  readonly directory: AccessDirectory;
  readonly realms: RealmLogins;
  readonly tickets: TicketService;
  readonly limiter: LoginLimiter;
  /** undefined = not clustered. */
  readonly clusterName: () => string | undefined;
}

const IN = { kind: "in" } as LoginStep;

export class Login {
  readonly #deps: LoginDeps;

  constructor(deps: LoginDeps) {
    this.#deps = deps;
  }

  async run(input: LoginInput, ctx: RequestContext): Promise<LoginResult> {
    const username = input.realm === undefined ? input.username : `${input.username}@${input.realm}`;
    let step = IN;
    await this.#guarded(username, ctx, async () => {
      step = await this.#check(username, input, ctx);
      return step.kind === "refused" ? step.reason : undefined;
    });
    if (step.kind === "asked") {
      ctx.log.info({ user: username, address: ctx.clientAddress }, "asked for a second factor");
      const ticket = await this.#deps.tickets.issueChallenge(username, JSON.stringify(step.challenge));
      return { username, ticket, needsMore: true };
    }
    ctx.log.info({ user: username, address: ctx.clientAddress }, "successful authentication");
    return this.#result(username, input);
  }

  /** POST /access/vncticket. */
  async verifyVnc(
    input: {
      readonly authid: string;
      readonly ticket: string;
      readonly path: string;
      readonly privs: string;
      readonly port?: number | undefined;
    },
    ctx: RequestContext,
  ): Promise<void> {
    await this.#guarded(input.authid, ctx, async () => {
      const path = normalizeAclPath(input.path);
      if (path === undefined) return `invalid path '${input.path}'`;
      if (!this.#deps.tickets.verifyVnc(input.ticket, input.authid, path, input.port))
        return "invalid PVEVNC ticket";
      return this.#missingPrivileges(input.authid, path, input.privs);
    });
  }

  async #guarded(user: string, ctx: RequestContext, check: () => Promise<string | undefined>): Promise<void> {
    const address = ctx.clientAddress;
    const reason = await this.#deps.limiter.guard(user, address, check);
    if (reason === undefined) return;
    ctx.log.warn({ user, address, reason }, "authentication failure");
    throw new AppError("auth.failed", "authentication failure");
  }

  async #check(username: string, input: LoginInput, ctx: RequestContext): Promise<LoginStep> {
    const { directory, tickets } = this.#deps;
    const model = directory.model();
    const user = model.users.get(username);
    if (user === undefined) return refused("no such user");
    if (!isActive(user, directory.nowSeconds())) return refused("the user is disabled or expired");
    if (input.tfaChallenge !== undefined)
      return this.#answer(username, input, input.tfaChallenge, ctx.signal);
    const ticketUser = tickets.verify(input.password)?.userid;
    if (!input.path || !input.privs) {
      // The ticket of root@pam makes tickets for others, too.
      if (ticketUser === username || ticketUser === ROOT_USER) return IN;
      return this.#checkPassword(username, input, ctx.signal);
    }
    const path = normalizeAclPath(input.path);
    if (path === undefined) return refused(`invalid path '${input.path}'`);
    if (ticketUser !== username && !tickets.verifyVnc(input.password, username, path)) {
      const step = await this.#checkPassword(username, input, ctx.signal);
      if (step.kind === "asked") return refused("a second factor is needed, for which nothing asks here");
      if (step.kind === "refused") return step;
    }
    const missing = this.#missingPrivileges(username, path, input.privs);
    return missing === undefined ? IN : refused(missing);
  }

  async #answer(
    username: string,
    input: LoginInput,
    ticket: string,
    signal: AbortSignal,
  ): Promise<LoginStep> {
    // To know what somebody may do is asked of who is in already.
    if (input.path || input.privs) return refused("privileges are not looked at in the middle of a login");
    const challenge = this.#deps.tickets.verifyChallenge(ticket, username);
    if (challenge === undefined) return refused("no such challenge");
    return this.#deps.realms.answer(username, JSON.parse(challenge) as Challenge, input.password, signal);
  }

  async #checkPassword(username: string, input: LoginInput, signal: AbortSignal): Promise<LoginStep> {
    const { realms, directory } = this.#deps;
    const step = await realms.begin(username, input.password, signal);
    if (step.kind === "refused") return step;
    if (step.kind === "asked")
      return input.otp === undefined ? step : realms.answer(username, step.challenge, input.otp, signal);
    if (input.otp !== undefined)
      return refused("a one-time password was given, but the user has no second factor");
    const realm = directory.model().realms.get(parseUserid(username)?.realm ?? "");
    if (realm?.tfa !== undefined) return refused("the realm demands a second factor, and the user has none");
    return IN;
  }

  #missingPrivileges(authid: string, path: string, privs: string): string | undefined {
    const userid = authid.split("!")[0] ?? authid;
    const wanted = listedNames(privs);
    if (wanted.length === 0) return "no privileges named";
    try {
      this.#deps.directory.view({ userid, authid }).require(path, wanted);
      return undefined;
    } catch (err) {
      if (isAppError(err, "access.denied")) return err.message;
      throw err;
    }
  }

  async #result(username: string, input: LoginInput): Promise<LoginResult> {
    const { directory, tickets, clusterName } = this.#deps;
    const view = directory.view({ userid: username, authid: username });
    const name = view.has("/", ["Sys.Audit"]) ? clusterName() : undefined;
    const common = {
      username,
      cap: capabilities(directory.model(), view),
      ...given({ clusterName: name }),
    };
    if (input.path && input.privs) return common;
    return { ...common, ticket: await tickets.issue(username), csrfToken: tickets.issueCsrf(username) };
  }
}

function refused(reason: string): LoginStep {
  return { kind: "refused", reason };
}
