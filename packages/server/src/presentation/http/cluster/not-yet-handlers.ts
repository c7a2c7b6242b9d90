// True answers about what no gpve has yet: high availability, replication, subscriptions, notifications, metric servers,
// certificates by ACME. Lists are empty, single objects do not exist; changing them is not implemented and answered as
// such.
import { missing, parameterError } from "@gpve/domain/request/failures.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export interface NotYetDeps {
  readonly localNode: string;
  readonly quorate: () => boolean;
}

const SUBSCRIPTION_INFO = "https://www.proxmox.com/en/proxmox-virtual-environment/pricing";

export function createNotYetHandlers(deps: NotYetDeps): PveHandlers {
  return {
    "GET /cluster/ha/groups": () => [],
    "GET /cluster/ha/groups/{group}": ({ group }) => notThere(`no such ha group '${group}'`),
    "GET /cluster/ha/resources": () => [],
    "GET /cluster/ha/resources/{sid}": ({ sid }) => notThere(`no such resource '${fullSid(sid)}'`),
    "GET /cluster/ha/rules": () => [],
    "GET /cluster/ha/rules/{rule}": ({ rule }) => notThere(`no such ha rule '${rule}'`),
    "GET /cluster/ha/status/current": () => [
      {
        id: "quorum",
        type: "quorum",
        node: deps.localNode,
        status: deps.quorate() ? "OK" : "No quorum on node!",
        quorate: deps.quorate() ? 1 : 0,
      },
    ],
    "GET /cluster/ha/status/manager_status": () => ({
      manager_status: {},
      lrm_status: {},
      quorum: { node: deps.localNode, quorate: deps.quorate() ? 1 : 0 },
    }),
    "GET /cluster/acme/account": () => [],
    "GET /cluster/acme/plugins": () => [],
    "GET /cluster/jobs/realm-sync": () => [],
    "GET /cluster/jobs/realm-sync/{id}": ({ id }) => {
      throw parameterError({ id: `No such job '${id}'` });
    },
    "GET /cluster/metrics/server": () => [],
    "GET /cluster/metrics/server/{id}": ({ id }) => notThere(`status server entry '${id}' does not exist`),
    "GET /cluster/notifications/endpoints/gotify": () => [],
    "GET /cluster/notifications/endpoints/sendmail": () => [],
    "GET /cluster/notifications/endpoints/smtp": () => [],
    "GET /cluster/notifications/endpoints/webhook": () => [],
    "GET /cluster/notifications/matchers": () => [],
    "GET /cluster/notifications/targets": () => [],
    "GET /cluster/replication": () => [],
    "GET /cluster/replication/{id}": noReplication,
    "GET /nodes/{node}/replication": () => [],
    "GET /nodes/{node}/replication/{id}/log": noReplication,
    "GET /nodes/{node}/replication/{id}/status": noReplication,
    "GET /nodes/{node}/subscription": () => ({
      status: "notfound",
      message: "There is no subscription key",
      url: SUBSCRIPTION_INFO,
    }),
  };
}

function noReplication({ id }: { readonly id: string }): never {
  return notThere(`no such replication job '${id}'`);
}

function notThere(text: string): never {
  throw missing(text);
}

/** A bare number is a VM. */
function fullSid(sid: string): string {
  return /^\d+$/.test(sid) ? `vm:${sid}` : sid;
}
