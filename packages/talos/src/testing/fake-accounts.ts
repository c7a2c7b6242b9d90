// Roles, users, tokens and what they may do, of a platform in memory.

type Values = Readonly<Record<string, string>>;

export class FakeAccounts {
  readonly roles = new Map<string, string>();
  readonly users = new Set<string>();
  /** By "USER!NAME". */
  readonly tokens = new Map<string, string>();
  /** "PATH ROLE WHOM" */
  readonly grants = new Set<string>();
  #made = 0;

  /** undefined: that is no method of these. */
  handle(verb: string, path: string, values: Values): unknown {
    const [, user = "", token = ""] = /^\/access\/users\/([^/]+)\/token(?:\/([^/]+))?$/.exec(path) ?? [];
    if (user !== "") return this.#token(verb, user, token);
    switch (`${verb} ${path}`) {
      case "GET /access/roles":
        return [...this.roles].map(([roleid, privs]) => ({ roleid, privs }));
      case "GET /access/users":
        return [...this.users].map((userid) => ({ userid }));
      case "POST /access/roles":
        this.roles.set(values["roleid"] ?? "", values["privs"] ?? "");
        return null;
      case "POST /access/users":
        this.users.add(values["userid"] ?? "");
        return null;
      case "PUT /access/acl":
        this.grants.add(`${values["path"]} ${values["roles"]} ${values["users"] ?? values["tokens"]}`);
        return null;
      default:
        return this.#role(verb, path, values);
    }
  }

  #role(verb: string, path: string, values: Values): unknown {
    const [, role = ""] = /^\/access\/roles\/([^/]+)$/.exec(path) ?? [];
    if (verb !== "PUT" || !this.roles.has(role)) return undefined;
    this.roles.set(role, values["privs"] ?? "");
    return null;
  }

  #token(verb: string, user: string, name: string): unknown {
    const id = `${user}!${name}`;
    if (verb === "GET") {
      const own = [...this.tokens.keys()].filter((each) => each.startsWith(`${user}!`));
      return own.map((each) => ({ tokenid: each.slice(user.length + 1) }));
    }
    if (verb === "DELETE") return this.tokens.delete(id) ? null : undefined;
    this.#made += 1;
    this.tokens.set(id, `secret-${this.#made}`);
    return { "full-tokenid": id, value: `secret-${this.#made}` };
  }
}
