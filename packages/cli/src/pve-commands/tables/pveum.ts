// `pveum`: the names, methods and positional arguments of PVE's.
import type { CommandGroup } from "../command-entry.ts";
import { tokenPermissions } from "../own/token-permissions.ts";
import { showPermissions } from "../output/access-texts.ts";

export const pveum: CommandGroup = {
  commands: {
    user: {
      commands: {
        add: { call: "POST /access/users", args: ["userid"] },
        modify: { call: "PUT /access/users/{userid}", args: ["userid"] },
        delete: { call: "DELETE /access/users/{userid}", args: ["userid"] },
        list: { call: "GET /access/users", args: [], formats: true },
        permissions: {
          call: "GET /access/permissions",
          args: ["userid"],
          formats: true,
          show: showPermissions,
        },
        tfa: {
          commands: {
            delete: { refused: "gpve keeps no second factors yet" },
            list: { refused: "gpve keeps no second factors yet" },
            unlock: { call: "PUT /access/users/{userid}/unlock-tfa", args: ["userid"] },
          },
        },
        token: {
          commands: {
            add: {
              call: "POST /access/users/{userid}/token/{tokenid}",
              args: ["userid", "tokenid"],
              formats: true,
            },
            modify: {
              call: "PUT /access/users/{userid}/token/{tokenid}",
              args: ["userid", "tokenid"],
              formats: true,
            },
            delete: {
              call: "DELETE /access/users/{userid}/token/{tokenid}",
              args: ["userid", "tokenid"],
              formats: true,
            },
            remove: { alias: "user token delete" },
            list: { call: "GET /access/users/{userid}/token", args: ["userid"], formats: true },
            permissions: {
              own: tokenPermissions,
              args: ["userid", "tokenid"],
              parameters: {
                userid: { type: "string", format: "pve-userid" },
                tokenid: { type: "string" },
                path: { type: "string", optional: true },
              },
              returns: { type: "object" },
              formats: true,
              show: showPermissions,
            },
          },
        },
      },
    },
    group: {
      commands: {
        add: { call: "POST /access/groups", args: ["groupid"] },
        modify: { call: "PUT /access/groups/{groupid}", args: ["groupid"] },
        delete: { call: "DELETE /access/groups/{groupid}", args: ["groupid"] },
        list: { call: "GET /access/groups", args: [], formats: true },
      },
    },
    role: {
      commands: {
        add: { call: "POST /access/roles", args: ["roleid"] },
        modify: { call: "PUT /access/roles/{roleid}", args: ["roleid"] },
        delete: { call: "DELETE /access/roles/{roleid}", args: ["roleid"] },
        list: { call: "GET /access/roles", args: [], formats: true },
      },
    },
    acl: {
      commands: {
        modify: { call: "PUT /access/acl", args: ["path"], fixed: { delete: "0" } },
        delete: { call: "PUT /access/acl", args: ["path"], fixed: { delete: "1" } },
        list: { call: "GET /access/acl", args: [], formats: true },
      },
    },
    realm: {
      commands: {
        add: { call: "POST /access/domains", args: ["realm"] },
        modify: { call: "PUT /access/domains/{realm}", args: ["realm"] },
        delete: { call: "DELETE /access/domains/{realm}", args: ["realm"] },
        list: { call: "GET /access/domains", args: [], formats: true },
        sync: { call: "POST /access/domains/{realm}/sync", args: ["realm"] },
      },
    },
    pool: {
      commands: {
        add: { call: "POST /pools", args: ["poolid"] },
        modify: { call: "PUT /pools", args: ["poolid"] },
        delete: { call: "DELETE /pools", args: ["poolid"] },
        list: { call: "GET /pools", args: [], formats: true },
      },
    },
    ticket: {
      call: "POST /access/ticket",
      args: ["username"],
      from: { password: "password" },
      show: (data, line) => line((data as { ticket: string }).ticket),
    },
    passwd: { call: "PUT /access/password", args: ["userid"], from: { password: "new-password" } },
    useradd: { alias: "user add" },
    usermod: { alias: "user modify" },
    userdel: { alias: "user delete" },
    groupadd: { alias: "group add" },
    groupmod: { alias: "group modify" },
    groupdel: { alias: "group delete" },
    roleadd: { alias: "role add" },
    rolemod: { alias: "role modify" },
    roledel: { alias: "role delete" },
    aclmod: { alias: "acl modify" },
    acldel: { alias: "acl delete" },
  },
};
