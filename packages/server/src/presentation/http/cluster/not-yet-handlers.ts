// True answers about what no gpve has yet: subscriptions, notifications, metric servers,
// certificates by ACME. Lists are empty, single objects do not exist; changing them is not implemented and answered as
// such.
import { missing, parameterError } from "@gpve/domain/request/failures.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

const SUBSCRIPTION_INFO = "https://www.proxmox.com/en/proxmox-virtual-environment/pricing";

export function createNotYetHandlers(): PveHandlers {
  return {
    "GET /cluster/acme/account": () => [],
    "GET /cluster/acme/plugins": () => [],
    "GET /cluster/jobs/realm-sync": () => [],
    "GET /cluster/jobs/realm-sync/{id}": ({ id }) => {
      throw parameterError({ id: `No such job '${id}'` });
    },
    "GET /cluster/metrics/server": () => [],
    "GET /cluster/metrics/server/{id}": ({ id }) => {
      throw missing(`status server entry '${id}' does not exist`);
    },
    "GET /cluster/notifications/endpoints/gotify": () => [],
    "GET /cluster/notifications/endpoints/sendmail": () => [],
    "GET /cluster/notifications/endpoints/smtp": () => [],
    "GET /cluster/notifications/endpoints/webhook": () => [],
    "GET /cluster/notifications/matchers": () => [],
    "GET /cluster/notifications/targets": () => [],
    "GET /nodes/{node}/subscription": () => ({
      status: "notfound",
      message: "There is no subscription key",
      url: SUBSCRIPTION_INFO,
    }),
  };
}
