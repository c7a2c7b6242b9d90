// `pvenode`: the names, methods and positional arguments of PVE's. And `vzdump`, which is one command.
import type { CallCommand, CommandGroup } from "../command-entry.ts";
import { showCertificates, showNodeConfig, showTaskLog } from "../output/node-texts.ts";

const acme = "gpve does not order certificates yet; its own authority signs them";
/** The whole log, not its first 50 lines. */
const WHOLE_LOG = "1000000";

export const pvenode: CommandGroup = {
  commands: {
    config: {
      commands: {
        get: { call: "GET /nodes/{node}/config", args: [], show: showNodeConfig },
        set: { call: "PUT /nodes/{node}/config", args: [] },
      },
    },
    startall: { call: "POST /nodes/{node}/startall", args: [] },
    stopall: { call: "POST /nodes/{node}/stopall", args: [] },
    migrateall: { call: "POST /nodes/{node}/migrateall", args: ["target"] },
    wakeonlan: { call: "POST /nodes/{node}/wakeonlan", args: ["node"] },
    cert: {
      commands: {
        info: { call: "GET /nodes/{node}/certificates/info", args: [], show: showCertificates },
        set: {
          call: "POST /nodes/{node}/certificates/custom",
          args: ["certificates", "key"],
          show: (data, line) => showCertificates([data], line),
        },
        delete: { call: "DELETE /nodes/{node}/certificates/custom", args: ["restart"] },
      },
    },
    task: {
      commands: {
        list: {
          call: "GET /nodes/{node}/tasks",
          args: [],
          formats: true,
          columns: ["upid", "type", "id", "user", "starttime", "endtime", "status"],
        },
        status: { call: "GET /nodes/{node}/tasks/{upid}/status", args: ["upid"], formats: true },
        log: {
          call: "GET /nodes/{node}/tasks/{upid}/log",
          args: ["upid"],
          fixed: { limit: WHOLE_LOG },
          show: showTaskLog,
        },
      },
    },
    acme: {
      commands: {
        account: {
          commands: {
            list: { refused: acme },
            register: { refused: acme },
            deactivate: { refused: acme },
            info: { refused: acme },
            update: { refused: acme },
          },
        },
        cert: {
          commands: { order: { refused: acme }, renew: { refused: acme }, revoke: { refused: acme } },
        },
        plugin: {
          commands: {
            list: { refused: acme },
            config: { refused: acme },
            add: { refused: acme },
            set: { refused: acme },
            remove: { refused: acme },
          },
        },
      },
    },
  },
};

export const vzdump: CallCommand = { call: "POST /nodes/{node}/vzdump", args: ["vmid"], isList: true };
