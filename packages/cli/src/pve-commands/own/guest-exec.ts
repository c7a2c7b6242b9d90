// `qm guest exec`: a program inside the guest, waited for.
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { badUsage } from "../read-options.ts";

const MAX_INPUT_BYTES = 1024 ** 2;
const DEFAULT_SECONDS = 30;

export async function guestExec(session: PveSession, values: OptionValues): Promise<unknown> {
  const isWaited = values["synchronous"] !== "0";
  if (values["timeout"] !== undefined && !isWaited) {
    throw new AppError("request.invalid", "Parameter verification failed.", {
      errors: { synchronous: "needs to be set for 'timeout'" },
      pveStatus: 400,
    });
  }
  const command = values["extra-args"] ?? [];
  if (command.length === 0) throw badUsage("not enough arguments");
  const { pve } = await session.client();
  const place = { node: await session.node(), vmid: String(values["vmid"]) };
  const input = values["pass-stdin"] === "1" ? await session.io.readStdin() : undefined;
  if (Buffer.byteLength(input ?? "") > MAX_INPUT_BYTES) {
    throw new AppError("request.too_large", "'input-data' (STDIN) is limited to 1 MiB, aborting", {
      pveStatus: 500,
    });
  }
  const path = "/nodes/{node}/qemu/{vmid}/agent/exec";
  const { data } = await pve.call("POST", path, {
    ...place,
    command,
    ...(input === undefined ? {} : { "input-data": input }),
  });
  const pid = isObject(data) ? Number(data["pid"]) : Number.NaN;
  if (!isWaited) return { pid };
  const { clock, signal } = session.io;
  const seconds = Number(values["timeout"] ?? DEFAULT_SECONDS);
  const end = seconds === 0 ? Infinity : clock.now() + seconds * 1000;
  while (clock.now() < end) {
    const state = await pve.call("GET", `${path}-status`, { ...place, pid });
    if (isObject(state.data) && Boolean(state.data["exited"])) return state.data;
    await clock.sleep(200, signal);
  }
  session.io.stderr.write("timeout reached, returning pid\n");
  return { pid };
}
