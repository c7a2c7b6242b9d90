// `qm monitor`: lines of QEMU's monitor, typed or piped.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { valueText } from "../output/value-text.ts";
import { readGuestConfig } from "./guest-config.ts";

export async function qemuMonitor(session: PveSession, values: OptionValues): Promise<void> {
  const vmid = String(values["vmid"]);
  await readGuestConfig(session, vmid);
  session.line(`Entering QEMU Monitor for VM ${vmid} - type 'help' for help`);
  const { pve } = await session.client();
  const node = await session.node();
  for await (const typed of lines(session)) {
    const command = typed.trim();
    if (command === "") continue;
    if (command === "q" || command === "quit") return;
    try {
      const { data } = await pve.call("POST", "/nodes/{node}/qemu/{vmid}/monitor", { node, vmid, command });
      session.line(valueText(data).replace(/\r?\n$/, ""));
    } catch (err) {
      if (!(err instanceof AppError)) throw err;
      session.line(`ERROR: ${err.message}`);
    }
  }
}

async function* lines({ io }: PveSession): AsyncGenerator<string> {
  try {
    for (;;) yield await io.ask("qm> ");
  } catch (err) {
    // No terminal to ask on: they are piped.
    if (!isAppError(err, "config.invalid")) throw err;
  }
  yield* (await io.readStdin()).split("\n");
}
