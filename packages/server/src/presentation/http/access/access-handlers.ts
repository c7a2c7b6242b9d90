import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Access } from "../../../application/access/access.ts";
import { showPermissions } from "../../../application/access/show-permissions.ts";
import { objectHandlers } from "./object-handlers.ts";
import { userHandlers } from "./user-handlers.ts";
import { flag } from "./wire-flag.ts";

/** All of /access except second factors and directory realms. */
export function createAccessHandlers(access: Access): PveHandlers {
  const { login, directory } = access;
  return {
    ...userHandlers(access),
    ...objectHandlers(access),
    // Lets formatters show a login page.
    "GET /access/ticket": () => null,
    "POST /access/ticket": async (params, ctx) => {
      const { path, privs, username, realm, password, otp } = params;
      const result = await login.run(
        { username, realm, password, otp, path, privs, tfaChallenge: params["tfa-challenge"] },
        ctx,
      );
      return {
        username: result.username,
        ticket: result.ticket,
        CSRFPreventionToken: result.csrfToken,
        cap: result.cap,
        clustername: result.clusterName,
        ...(result.needsMore === true ? { NeedTFA: 1 } : {}),
      };
    },
    "POST /access/vncticket": ({ authid, vncticket, path, privs, port }, ctx) =>
      login.verifyVnc({ authid, ticket: vncticket, path, privs, port }, ctx),
    "GET /access/permissions": (params, ctx) =>
      Object.fromEntries(
        Object.entries(showPermissions(directory, params, ctx)).map(([path, privileges]) => [
          path,
          Object.fromEntries(Object.entries(privileges).map(([name, propagate]) => [name, flag(propagate)])),
        ]),
      ),
  };
}
