// Hands guests over by asking servers, one after the other until one has answered.
import { given } from "@gpve/contracts/given.ts";
import type { MoveServers } from "@gpve/domain/guest/move-servers.ts";
import { askServers, type AskedLinks } from "./ask-servers.ts";

const CALL_TIMEOUT_MS = 4_000;
const WHAT = "whose the guest is";

export function moveServers(links: AskedLinks): MoveServers {
  return {
    handOver: async ({ vmid, moveId }, conf) => {
      const asked = { vmid, moveId, ...given({ conf }) };
      const options = { timeoutMs: CALL_TIMEOUT_MS };
      return (await askServers(links, WHAT, (client) => client.handOver(asked, options))).owner;
    },
    withdraw: async (move) => {
      const options = { timeoutMs: CALL_TIMEOUT_MS };
      return (await askServers(links, WHAT, (client) => client.withdrawMove(move, options))).owner;
    },
  };
}
