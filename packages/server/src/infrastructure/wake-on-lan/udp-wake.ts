// Sends magic packets by UDP, to the port of the discard service as everybody does.
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { networkInterfaces } from "node:os";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { WakePacket } from "@gpve/domain/node/wake-packet.ts";

const DISCARD = 9;

export async function sendWakePacket(
  { bytes, broadcast, iface }: WakePacket,
  port: number = DISCARD,
): Promise<void> {
  const socket = createSocket("udp4");
  try {
    // Linux lets a limited broadcast out by the card whose address it comes from.
    await bound(socket, iface === undefined ? undefined : addressOf(iface));
    socket.setBroadcast(true);
    await new Promise<void>((done, failed) => {
      socket.send(bytes, port, broadcast, (err) => (err === null ? done() : failed(err)));
    });
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw new AppError("operation.failed", `Unable to send packet to ${broadcast}: ${messageOf(err)}`, {
      cause: err,
      pveStatus: 500,
    });
  } finally {
    socket.close();
  }
}

async function bound(socket: Socket, address: string | undefined): Promise<void> {
  const listening = once(socket, "listening");
  socket.bind({ port: 0, ...given({ address }) });
  await listening;
}

function addressOf(iface: string): string {
  const found = networkInterfaces()[iface]?.find(({ family }) => family === "IPv4");
  if (found !== undefined) return found.address;
  throw new AppError(
    "config.invalid",
    `Unable to bind to interface '${iface}': there is none with an IPv4 address here; correct bind-interface in this node's wakeonlan`,
    { pveStatus: 500 },
  );
}
