import { isIPv6 } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import type { LocalClient } from "../../io.ts";
import { pump } from "./console/pump.ts";
import { findVm, vmArgument } from "./find-vm.ts";

interface Target {
  readonly vmid: number;
  readonly port: number;
  readonly address?: string;
}

export const vmTunnel: CommandSpec = {
  name: "vm tunnel",
  summary: "reach a TCP port of a VM through the platform",
  details:
    "Listens on this machine and carries every connection to the VM's port, until Ctrl-C. It needs VM.Console on the VM, and a VM on a bridge where its node has an address too: the node must see the VM's address at the VM's own card. Whoever can connect to the address that is listened on comes through: by default that is everybody on this machine, and nobody else.",
  arguments: [vmArgument, { name: "<port>", about: "TCP port of the VM" }],
  options: [
    { flags: "--listen <address:port>", about: "where on this machine (127.0.0.1 and any free port)" },
    { flags: "--address <ip>", about: "which of the VM's addresses (one that its node sees)" },
    { flags: "--once", about: "end with the first connection" },
  ],
  examples: [
    "vm tunnel web 80",
    "vm tunnel cp-1 50000 --listen 127.0.0.1:50000",
    "vm tunnel cp-1 6443 --listen 127.0.0.1:6443 --address 10.0.0.5",
  ],
  doing: (input) => `reach port ${input.arg("port")} of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const port = wholeNumber(1, 65_535)(input.arg("port"));
    const where = localAddress(input.text("listen") ?? "127.0.0.1:0");
    const client = await cli.client();
    const { vmid } = await findVm(client, input.arg("vm"));
    const target = { vmid, port, ...given({ address: input.text("address") }) };
    // Said now, and not when somebody connects: whoever reads the message sits here.
    (await openLine(client, target, cli.signal)).close();
    const over = Promise.withResolvers<void>();
    const listener = await cli.io.listen(where, (local) => {
      void carry(client, target, local, cli.signal)
        .catch((err: unknown) => cli.out.note(`A connection was sent away: ${messageOf(err)}`))
        .finally(() => {
          local.close();
          if (input.flag("once")) over.resolve();
        });
    });
    if (cli.out.forPeople) {
      cli.out.line(`Port ${port} of VM ${vmid} is at ${listener.address}`);
      cli.out.note("Ctrl-C ends it.");
    } else cli.out.data({ ...target, listen: listener.address });
    cli.signal.addEventListener("abort", () => over.resolve(), { once: true });
    if (cli.signal.aborted) over.resolve();
    await over.promise;
    await listener.close();
  },
};

async function carry(
  client: GpveClient,
  target: Target,
  local: LocalClient,
  signal: AbortSignal,
): Promise<void> {
  const line = await openLine(client, target, signal);
  try {
    const down = pump(line.messages, (bytes) => local.write(bytes));
    const up = pump(local.input, (bytes) => line.send(bytes));
    await Promise.race([down, up]);
  } finally {
    line.close();
  }
}

function openLine(client: GpveClient, { vmid, port, address }: Target, signal: AbortSignal) {
  return client.v1.openTunnel(vmid, port, { signal, ...given({ address }) });
}

/** "127.0.0.1:8080", "[::1]:8080", ":8080" or "8080". */
export function localAddress(text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, port = ""] = /^(?:(?:\[([^\]]+)\]|([^:[\]]*)):)?(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain ?? "";
  if (port === "" || Number(port) > 65_535 || (bracketed !== undefined && !isIPv6(bracketed)))
    throw new AppError("request.invalid", `"${text}" is no address to listen on; write it as 127.0.0.1:8080`);
  return { host: host === "" ? "127.0.0.1" : host, port: Number(port) };
}
