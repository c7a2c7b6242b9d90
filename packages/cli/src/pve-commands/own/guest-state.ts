// `qm status`, `qm wait`, `qm unlock`.
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { showTree } from "../output/guest-texts.ts";
import { valueText } from "../output/value-text.ts";

async function currentState(session: PveSession, vmid: string): Promise<Readonly<Record<string, unknown>>> {
  const { pve } = await session.client();
  const path = "/nodes/{node}/qemu/{vmid}/status/current";
  const { data } = await pve.call("GET", path, { node: await session.node(), vmid });
  return isObject(data) ? data : {};
}

export async function showStatus(session: PveSession, values: OptionValues): Promise<void> {
  const state = await currentState(session, String(values["vmid"]));
  if (values["verbose"] !== "1") {
    session.line(`status: ${valueText(state["qmpstatus"] ?? state["status"] ?? "unknown")}`);
    return;
  }
  for (const key of Object.keys(state).toSorted()) {
    if (key !== "cpu" && key !== "relcpu") showTree(state[key], session.line, key);
  }
}

export async function waitStopped(session: PveSession, values: OptionValues): Promise<void> {
  const vmid = String(values["vmid"]);
  const seconds = values["timeout"] === undefined ? Infinity : Number(values["timeout"]);
  const { clock, signal } = session.io;
  const end = clock.now() + seconds * 1000;
  for (let isFirst = true; ; isFirst = false) {
    const state = await currentState(session, vmid);
    if (state["status"] !== "running") return;
    if (isFirst) session.line(`waiting until VM ${vmid} stops (PID ${valueText(state["pid"])})`);
    if (clock.now() >= end) {
      throw new AppError("request.timeout", "wait failed - got timeout", { pveStatus: 500 });
    }
    await clock.sleep(1000, signal);
  }
}

export async function unlockGuest(session: PveSession, values: OptionValues): Promise<void> {
  const { pve } = await session.client();
  await pve.call("PUT", "/nodes/{node}/qemu/{vmid}/config", {
    node: await session.node(),
    vmid: String(values["vmid"]),
    delete: "lock",
    skiplock: true,
  });
}
