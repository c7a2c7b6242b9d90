// `gpve down`: server and agent stop, guests run on.
import { AppError } from "@gpve/contracts/errors.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { isAlive } from "@gpve/kit/process-identity.ts";
import type { Io } from "../io.ts";
import { readRunState } from "../run-state.ts";
import { runningGuests } from "./running-guests.ts";
import { commandOptions, dataDirOption } from "./options.ts";

const STOP_TIMEOUT_MS = 20_000;

export async function down(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("down", args, { data: { type: "string" }, guests: { type: "boolean" } });
  const data = openDataDir(dataDirOption(options.data));
  const state = readRunState(data);
  if (state === undefined) {
    io.out(`gpve is not running on ${data.path}`);
    return 0;
  }
  const guests = await runningGuests(data);
  if (guests > 0 && options.guests === true) {
    throw new AppError(
      "feature.unsupported",
      `${guests} guests run, and this version cannot shut guests down: stop them first`,
    );
  }
  process.kill(state.process.pid, "SIGTERM");
  const end = performance.now() + STOP_TIMEOUT_MS;
  while (isAlive(state.process)) {
    if (performance.now() > end) {
      throw new AppError(
        "request.timeout",
        `process ${state.process.pid} did not stop within ${STOP_TIMEOUT_MS / 1000} s; see ${data.file("log", "gpve.log")}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  io.out(
    `gpve stopped: server and agent are down, ${guests === 0 ? "no guests were running" : `${guests} guests run on`}`,
  );
  return 0;
}
