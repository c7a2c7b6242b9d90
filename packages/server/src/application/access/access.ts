// Joins the access use cases. compose.ts gives it adapters; the handlers and the HTTP layer use what it returns.
import { decide } from "@gpve/domain/access/decision.ts";
import type {
  HostAccounts,
  PasswordHasher,
  Sealer,
  TicketService,
  TokenSecrets,
} from "@gpve/domain/access/ports.ts";
import type { RealmLogin } from "@gpve/domain/access/realm-login.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Decide } from "../node/call-agent.ts";
import { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { AccessControlList } from "./acl.ts";
import { Authenticator } from "./authenticator.ts";
import { ChangePassword } from "./change-password.ts";
import { Groups } from "./groups.ts";
import { LoginLimiter } from "./login-limiter.ts";
import { Login } from "./login.ts";
import { Passwords } from "./passwords.ts";
import { PamRealmLogin, PveRealmLogin, RealmLogins } from "./realm-logins.ts";
import { Realms } from "./realms.ts";
import { Roles } from "./roles.ts";
import { Tokens } from "./tokens.ts";
import { Users } from "./users.ts";

export interface AccessDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly hasher: PasswordHasher;
  readonly sealer: Sealer;
  readonly secrets: TokenSecrets;
  readonly tickets: TicketService;
  readonly host: HostAccounts;
  /** By type, beside `pve` and `pam`. */
  readonly otherRealms: Readonly<Record<string, RealmLogin>>;
  /** undefined = not clustered. */
  readonly clusterName: () => string | undefined;
}

export interface Access {
  readonly directory: AccessDirectory;
  readonly users: Users;
  readonly tokens: Tokens;
  readonly groups: Groups;
  readonly roles: Roles;
  readonly acl: AccessControlList;
  readonly realms: Realms;
  readonly login: Login;
  readonly changePassword: ChangePassword;
  readonly authenticator: Authenticator;
  readonly accessOf: (actor: Actor | undefined) => AccessView;
  /** The one authoriser. Throws AppError access.denied. */
  readonly decide: Decide;
}

export function createAccess(deps: AccessDeps): Access {
  const { records, clock, clusterName } = deps;
  const directory = new AccessDirectory({ records, clock });
  const passwords = new Passwords({ ...deps, directory });
  const types = {
    ...deps.otherRealms,
    pve: new PveRealmLogin(passwords),
    pam: new PamRealmLogin(passwords, deps.host),
  };
  const realms = new RealmLogins({ directory, types });
  const limiter = new LoginLimiter(clock);
  const shared = { records, directory };
  return {
    directory,
    users: new Users({ ...shared, passwords }),
    tokens: new Tokens({ ...deps, directory }),
    groups: new Groups(shared),
    roles: new Roles(shared),
    acl: new AccessControlList(shared),
    realms: new Realms(shared),
    login: new Login({ directory, realms, tickets: deps.tickets, limiter, clusterName }),
    changePassword: new ChangePassword({ directory, passwords, realms, limiter }),
    authenticator: new Authenticator({ ...deps, directory }),
    accessOf: (actor) => directory.view(actor),
    decide: (route, params, { actor, access }) =>
      decide(route, params, { actor, access, model: directory.model() }),
  };
}
