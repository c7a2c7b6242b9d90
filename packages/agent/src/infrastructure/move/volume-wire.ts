// Volumes of a cluster's workers go from the node that has them to the one that asked: a line with their size, then the bytes.
import type { Duplex } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { VolumeParcel, VolumeSource } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import { drained } from "./drained.ts";
import { readBytes, readLine, writeLine } from "./move-wire.ts";

export const VOLUMES_CHANNEL = "vcluster-volumes";

export async function serveVolumes(
  socket: Duplex,
  { vcluster = "", from }: GuestMove,
  source: VolumeSource,
  failure: (err: unknown) => unknown,
): Promise<void> {
  const gone = new AbortController();
  socket.once("close", () => gone.abort(new AppError("operation.cancelled", `node ${from.node} hung up`)));
  writeLine(socket, { ok: true });
  let parcel: VolumeParcel | undefined;
  try {
    parcel = await source.pack(vcluster, gone.signal);
    writeLine(socket, { ok: { size: parcel.size } });
    for await (const chunk of parcel.body) {
      gone.signal.throwIfAborted();
      if (!socket.write(chunk)) await drained(socket);
    }
  } catch (err) {
    if (!socket.destroyed) writeLine(socket, { error: failure(err) });
  } finally {
    await parcel?.close();
    socket.end();
  }
}

/** `answerOf` reads what the other end has said. */
export async function askedVolumes(
  socket: Duplex,
  answerOf: (line: unknown) => unknown,
): Promise<VolumeParcel> {
  const { size } = (answerOf(await readLine(socket)) ?? {}) as { readonly size?: unknown };
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    throw new AppError("request.invalid", "a node says of its volumes what is no size");
  return {
    size,
    body: readBytes(socket, size),
    close: async () => {
      socket.destroy();
    },
  };
}
