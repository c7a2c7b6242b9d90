// `qm terminal`: a VM's serial line in this terminal.
import { consoleOffer } from "@gpve/client/pve-client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { serialSession } from "../../commands/vm/console/serial-session.ts";
import { readGuestConfig } from "./guest-config.ts";

const QUIET_MS = 2000;
const PORTS = ["serial0", "serial1", "serial2", "serial3"];

export async function serialTerminal(session: PveSession, values: OptionValues): Promise<void> {
  const vmid = String(values["vmid"]);
  const escape = escapeOf(values["escape"] === undefined ? "^O" : String(values["escape"]));
  const config = await readGuestConfig(session, vmid);
  const named = values["iface"] === undefined ? undefined : String(values["iface"]);
  if (named !== undefined && config[named] === undefined)
    throw refused(`serial interface '${named}' is not configured`);
  if (named !== undefined && config[named] !== "socket")
    throw refused(`wrong serial type on interface '${named}'`);
  const serial = named ?? PORTS.find((port) => config[port] === "socket");
  if (serial === undefined) throw refused("unable to find a serial interface");
  const { pve } = await session.client();
  const node = await session.node();
  const answer = await pve.call("POST", "/nodes/{node}/qemu/{vmid}/termproxy", { node, vmid, serial });
  const offer = consoleOffer(answer.data);
  const path = `/nodes/${encodeURIComponent(node)}/qemu/${vmid}/vncwebsocket`;
  const { io } = session;
  const socket = await pve.openConsole(path, offer, { signal: io.signal });
  const leave = escape === 0 ? "" : ` (press Ctrl+${String.fromCodePoint(escape + 0x40)} to exit)`;
  session.line(`starting serial terminal on interface ${serial}${leave}`);
  const terminal = io.openTerminal();
  const { clock, signal } = io;
  await serialSession({ socket, offer, terminal, clock, signal, escape, quietMs: QUIET_MS });
}

/** "^O", "0x0f" or "15"; 0 is none. */
function escapeOf(text: string): number {
  const control = /^\^([\u0040-\u007a])$/.exec(text);
  if (control !== null) return (control[1] ?? "").charCodeAt(0) & 0x1f;
  if (/^(?:0x[0-9a-f]{1,2}|\d{1,3})$/i.test(text)) return Number(text);
  throw refused(`invalid escape character definition: ${text}`);
}

function refused(message: string): AppError {
  return new AppError("request.invalid", message, { pveStatus: 500 });
}
