import { given } from "@gpve/contracts/given.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { consoleOffer } from "@gpve/client/pve-client.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../../command.ts";
import { durationSeconds } from "../../../input.ts";
import { findVm, vmArgument, type VmPlace } from "../find-vm.ts";
import { serialSession, type SerialOptions } from "./serial-session.ts";

const QUIET_MS = 2_000;

type ConsoleOptions = Pick<SerialOptions, "when" | "until" | "deadlineMs"> & {
  readonly serial?: string;
};

export const vmConsole: CommandSpec = {
  name: "vm console",
  summary: "use a VM's serial line in this terminal",
  details:
    "Ctrl-] leaves it; the VM runs on. The VM needs a serial port (serial0=socket), and its guest a login there. Pipes work too: standard input is typed into the guest, and the command ends when the guest has then been silent for 2 seconds, has said what --until names, or has ended.",
  arguments: [vmArgument],
  options: [
    { flags: "--serial <port>", about: "which port", choices: ["serial0", "serial1", "serial2", "serial3"] },
    { flags: "--when <text>", about: "type nothing before the guest has said this" },
    { flags: "--until <text>", about: "end when the guest has said this after everything was typed" },
    { flags: "--wait-for <duration>", about: "fail when it takes longer", parse: durationSeconds },
  ],
  examples: [
    "vm console web",
    "vm console demo --until 'login:' --wait-for 2m < /dev/null",
    "vm console demo --when '# ' < commands.txt",
  ],
  doing: (input) => `open the console of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const seconds = input.number("waitFor");
    const wanted = given({
      serial: input.text("serial"),
      when: input.text("when"),
      until: input.text("until"),
      deadlineMs: seconds === undefined ? undefined : seconds * 1000,
    });
    await openConsole(cli, client, place, wanted);
  },
};

/** Joins this terminal to the VM's serial line, and says at the end why it ended. */
export async function openConsole(
  cli: Cli,
  client: GpveClient,
  place: VmPlace,
  options: ConsoleOptions = {},
): Promise<void> {
  const { serial, ...rest } = options;
  const data = await client.pve
    .call("POST", "/nodes/{node}/qemu/{vmid}/termproxy", {
      ...place,
      ...given({ serial }),
    })
    .catch((err: unknown) => {
      throw withAdvice(err, place);
    });
  const offer = consoleOffer(data.data);
  const path = `/nodes/${encodeURIComponent(place.node)}/qemu/${place.vmid}/vncwebsocket`;
  const socket = await client.pve.openConsole(path, offer, { signal: cli.signal });
  const terminal = cli.io.openTerminal();
  if (terminal.isTTY) cli.out.note(`Console of VM ${place.vmid}. Ctrl-] leaves it.`);
  const { clock } = cli.io;
  const { signal } = cli;
  const end = await serialSession({ socket, offer, terminal, clock, signal, quietMs: QUIET_MS, ...rest });
  if (terminal.isTTY) {
    cli.io.stderr.write("\n");
    cli.out.note(
      end === "left"
        ? `Left the console; VM ${place.vmid} runs on. Back to it: gpvectl vm console ${place.vmid}`
        : `The console of VM ${place.vmid} was closed.`,
    );
  }
  if (end === "closed" && rest.until !== undefined)
    throw new AppError("object.conflict", `the console ended before the guest said "${rest.until}"`, {
      data: { next: `See what the VM does: gpvectl vm show ${place.vmid}.` },
    });
}

function withAdvice(err: unknown, { vmid }: VmPlace): unknown {
  if (!isAppError(err)) return err;
  const next = err.message.includes("not running")
    ? `Start it: gpvectl vm start ${vmid}.`
    : err.message.includes("serial interface")
      ? `Give it a serial port and start it again: gpvectl vm set ${vmid} serial0=socket.`
      : undefined;
  if (next === undefined) return err;
  return new AppError(err.code, err.message, { cause: err, data: { ...err.data, next } });
}
