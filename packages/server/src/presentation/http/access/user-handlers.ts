import type { Token } from "@gpve/domain/access/types.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Access } from "../../../application/access/access.ts";
import { tfaTypeOf } from "../../../application/access/realms.ts";
import type { UserView } from "../../../application/access/users.ts";
import { flag } from "./wire-flag.ts";

export function userHandlers({ users, tokens, realms, changePassword }: Access): PveHandlers {
  return {
    "GET /access/users": ({ enabled, full }, ctx) =>
      users.list(ctx, { enabled }).map((user) => ({
        userid: user.userid,
        ...userFields(user),
        "realm-type": user.realmType,
        ...(full === true ? { groups: user.groups.join(","), tokens: user.tokens.map(tokenRow) } : {}),
      })),
    "POST /access/users": (params, ctx) => users.create(params, ctx),
    "GET /access/users/{userid}": ({ userid }) => {
      const user = users.get(userid);
      return {
        ...userFields(user),
        groups: user.groups,
        tokens: Object.fromEntries(user.tokens.map((token) => [token.tokenid, tokenInfo(token)])),
      };
    },
    "PUT /access/users/{userid}": ({ userid, ...changes }) => users.update(userid, changes),
    "DELETE /access/users/{userid}": ({ userid }) => users.remove(userid),

    "GET /access/users/{userid}/token": ({ userid }) => tokens.list(userid).map(tokenRow),
    "GET /access/users/{userid}/token/{tokenid}": ({ userid, tokenid }) =>
      tokenInfo(tokens.get(userid, tokenid)),
    "POST /access/users/{userid}/token/{tokenid}": async ({ userid, tokenid, ...input }) => {
      const made = await tokens.create(userid, tokenid, input);
      return { "full-tokenid": made.authid, info: tokenInfo(made.token), value: made.secret };
    },
    "PUT /access/users/{userid}/token/{tokenid}": async ({ userid, tokenid, delete: remove, ...input }) => {
      const { token, authid, secret } = await tokens.update(userid, tokenid, { ...input, remove });
      const anew = secret === undefined ? {} : { "full-tokenid": authid, value: secret };
      return { ...tokenInfo(token), ...anew };
    },
    "DELETE /access/users/{userid}/token/{tokenid}": ({ userid, tokenid }) => tokens.remove(userid, tokenid),

    "PUT /access/password": (params, ctx) =>
      changePassword.run({ ...params, confirmation: params["confirmation-password"] }, ctx),

    // Second factors cannot be set up here, so the true answer to every question about them is "none".
    "GET /access/tfa": () => [],
    "GET /access/tfa/{userid}": ({ userid }) => {
      users.get(userid);
      return [];
    },
    "GET /access/tfa/{userid}/{id}": ({ userid, id }) => {
      users.get(userid);
      throw new AppError("object.not_found", `No such tfa entry '${id}'`, { pveStatus: 404 });
    },
    "GET /access/users/{userid}/tfa": ({ userid, multiple }) => {
      users.get(userid);
      const realm = realms.list().find(({ realm: id }) => userid.endsWith(`@${id}`));
      return { realm: tfaTypeOf(realm), ...(multiple === true ? { types: [] } : {}) };
    },
    "PUT /access/users/{userid}/unlock-tfa": ({ userid }) => {
      users.get(userid);
      return flag(false);
    },
  };
}

function userFields(user: UserView): Record<string, unknown> {
  const { enable, expire, firstname, lastname, email, comment, keys } = user;
  return { enable: flag(enable), expire, firstname, lastname, email, comment, keys };
}

function tokenInfo({ privsep, expire, comment }: Token): Record<string, unknown> {
  return { privsep: flag(privsep), expire, comment };
}

function tokenRow(token: Token): Record<string, unknown> {
  return { tokenid: token.tokenid, ...tokenInfo(token) };
}
