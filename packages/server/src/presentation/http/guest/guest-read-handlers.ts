import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import { parameterError } from "@gpve/domain/schema/validate-params.ts";
import type { ReadGuests } from "../../../application/guest/read-guests.ts";

const BOTH = "cannot use 'snapshot' parameter with 'current'";

export function createGuestReadHandlers({ guests }: { readonly guests: ReadGuests }): PveHandlers {
  return {
    "GET /nodes/{node}/qemu": ({ node }, ctx) =>
      new PveReply({ rawJson: guests.listJson(node, "qemu", ctx) }),
    "GET /nodes/{node}/lxc": ({ node }, ctx) => new PveReply({ rawJson: guests.listJson(node, "lxc", ctx) }),
    "GET /nodes/{node}/qemu/{vmid}/config": ({ node, vmid, current, snapshot }) => {
      if (current === true && snapshot !== undefined) throw parameterError({ snapshot: BOTH, current: BOTH });
      if (current !== true && snapshot === undefined) {
        return new PveReply({ rawJson: guests.configJson(node, vmid) });
      }
      return guests.configView(node, vmid, snapshot === undefined ? {} : { snapshot });
    },
    "GET /nodes/{node}/qemu/{vmid}/pending": ({ node, vmid }) => guests.pending(node, vmid),
  };
}
