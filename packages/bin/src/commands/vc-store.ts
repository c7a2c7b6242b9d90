// `gpve vc-store FOLDER`: the stores of this node's virtual clusters, in a process of their own that outlives the agent.
// The agent starts it; nobody else needs to.
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { ManyStores } from "@gpve/store/etcd-server/many-stores.ts";
import type { Io } from "../io.ts";
import { untilSignalled } from "../until-signalled.ts";

export async function vcStore(args: readonly string[], io: Io): Promise<number> {
  const [folder] = args;
  if (folder === undefined) throw new AppError("request.invalid", "say which folder has the stores");
  // Who may speak to a store is said by the folder of its socket.
  process.umask(0);
  const stores = new ManyStores({ folder, clock: systemClock, say: (line) => io.err(line) });
  await stores.start();
  return untilSignalled(() => stores.close());
}
