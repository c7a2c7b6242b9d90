import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { consoleOffer } from "@gpve/client/pve-client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../../command.ts";
import { wholeNumber } from "../../../input.ts";
import type { LocalClient } from "../../../io.ts";
import { findVm, vmArgument, type VmPlace } from "../find-vm.ts";
import { pump } from "./pump.ts";
import { greetServer, greetViewer, rfbReader } from "./rfb-greeting.ts";

export const vmVnc: CommandSpec = {
  name: "vm vnc",
  summary: "let VNC viewers on this machine see a VM's screen",
  details:
    "Listens on this machine and carries every viewer that connects to the VM's screen, until Ctrl-C. A TCP port asks viewers for the password that is printed; a socket (--socket) asks for none, since only its owner can open it.",
  arguments: [vmArgument],
  options: [
    {
      flags: "--port <number>",
      about: "TCP port on 127.0.0.1 (any free one)",
      parse: wholeNumber(0, 65_535),
    },
    { flags: "--listen <address>", about: "another address than 127.0.0.1" },
    { flags: "--socket <path>", about: "a socket in the file system instead of a port" },
    { flags: "--once", about: "end with the first viewer" },
  ],
  examples: ["vm vnc web", "vm vnc web --port 5901 --once", "vm vnc web --socket /run/user/1000/web.vnc"],
  doing: (input) => `show the screen of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    await requireRunning(client, place);
    const socket = input.text("socket");
    const password = socket === undefined ? randomBytes(6).toString("base64url") : undefined;
    const where =
      socket === undefined
        ? { host: input.text("listen") ?? "127.0.0.1", port: input.number("port") ?? 0 }
        : { socket: resolve(cli.io.cwd, socket) };
    const over = Promise.withResolvers<void>();
    const listener = await cli.io.listen(where, (viewer) => {
      void carry(client, place, viewer, password, cli.signal)
        .catch((err: unknown) => cli.out.note(`A viewer was sent away: ${messageOf(err)}`))
        .finally(() => {
          viewer.close();
          if (input.flag("once")) over.resolve();
        });
    });
    const offer = {
      vmid: place.vmid,
      address: listener.address,
      ...given({ password }),
    };
    if (cli.out.forPeople) {
      const secret = password === undefined ? "" : `, password ${password}`;
      cli.out.line(`Screen of VM ${place.vmid}: connect a VNC viewer to ${listener.address}${secret}`);
      cli.out.note("Ctrl-C ends it.");
    } else cli.out.data(offer);
    cli.signal.addEventListener("abort", () => over.resolve(), { once: true });
    if (cli.signal.aborted) over.resolve();
    await over.promise;
    await listener.close();
    if ("socket" in where) await rm(where.socket, { force: true });
  },
};

/** Said now, and not when a viewer comes: whoever reads the message sits here. */
async function requireRunning(client: GpveClient, place: VmPlace): Promise<void> {
  const status = await client.pve.get("/nodes/{node}/qemu/{vmid}/status/current", { ...place });
  if (isObject(status) && status["status"] === "running") return;
  throw new AppError("object.conflict", `VM ${place.vmid} is not running`, {
    data: { next: `Start it: gpvectl vm start ${place.vmid}.` },
  });
}

async function carry(
  client: GpveClient,
  place: VmPlace,
  viewer: LocalClient,
  password: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const fromViewer = rfbReader(viewer.input);
  if (!(await greetViewer(fromViewer, (bytes) => viewer.write(bytes), password))) return;
  const offer = consoleOffer(
    await client.pve.post("/nodes/{node}/qemu/{vmid}/vncproxy", {
      ...place,
      websocket: true,
      "generate-password": true,
    }),
  );
  const path = `/nodes/${encodeURIComponent(place.node)}/qemu/${place.vmid}/vncwebsocket`;
  const socket = await client.pve.openConsole(path, offer, { signal });
  try {
    const fromServer = rfbReader(socket.messages);
    await greetServer(fromServer, (bytes) => socket.send(bytes), offer.password ?? "");
    const down = pump(fromServer.remainder(), (bytes) => viewer.write(bytes));
    const up = pump(fromViewer.remainder(), (bytes) => socket.send(bytes));
    await Promise.race([down, up]);
  } finally {
    socket.close();
  }
}
