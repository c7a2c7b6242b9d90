// What `gpve up` runs where several nodes were asked for, now or when the data directory was made.
import { AppError } from "@gpve/contracts/errors.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { createLogger } from "@gpve/kit/logger.ts";
import type { ListenAddress } from "../commands/options.ts";
import type { RunningNode } from "../compose-node.ts";
import type { Io } from "../io.ts";
import { chooseNodeSubnet } from "./lab-network.ts";
import { openLab } from "./lab-plan.ts";
import { startLab, stopNodes } from "./start-lab.ts";

export async function upLab(
  data: DataDir,
  settings: { readonly count: number | undefined; readonly listen: ListenAddress },
  io: Io,
): Promise<RunningNode> {
  if (process.getuid?.() !== 0)
    throw new AppError(
      "access.denied",
      "several nodes on one machine are network namespaces, which need root",
    );
  const log = createLogger({ component: "lab", output: data.file("log", "lab.jsonl") });
  const lab = await openLab(data, settings.count, chooseNodeSubnet);
  try {
    const running = await startLab(lab, settings.listen, {
      log,
      said: (line) => io.err(`gpve: ${line}`),
    });
    return {
      name: lab.nodes.map(({ name }) => name).join(", "),
      port: running.port,
      metricsUrl: undefined,
      async stop() {
        await running.stop();
        log.close();
      },
    };
  } catch (err) {
    // Nothing half-started stays; guests that ran before run on.
    await stopNodes(lab);
    log.close();
    throw err;
  }
}
