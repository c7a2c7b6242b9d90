// One question for whichever server answers it, those that are known to answer first.
import { createClient, type Client } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { rootMessage } from "@gpve/kit/grpc/channel.ts";
import type { ServerLink } from "./server-link.ts";

export type AskedLinks = () => readonly Pick<ServerLink, "connected" | "endpoint" | "transport">[];

/** Throws what a server has judged, which the next one judges alike; store.unavailable when none could be asked. */
export async function askServers<T>(
  links: AskedLinks,
  what: string,
  call: (client: Client<typeof ServerService>) => Promise<T>,
): Promise<T> {
  const tried: string[] = [];
  for (const link of links().toSorted((a, b) => Number(b.connected()) - Number(a.connected()))) {
    try {
      return await call(createClient(ServerService, link.transport()));
    } catch (err) {
      const told = appErrorOf(err);
      if (told !== undefined && told.code !== "store.unavailable") throw told;
      tried.push(`${link.endpoint}: ${told?.message ?? rootMessage(err)}`);
    }
  }
  throw new AppError("store.unavailable", `no server could be asked ${what}: ${tried.join("; ")}`);
}
