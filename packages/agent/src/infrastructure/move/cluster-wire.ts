// How the control plane of a virtual cluster goes from agent to agent, on one connection: for each file a line of JSON and
// its bytes, then a line that says that this is all, with a digest of it. Only that last line is answered.
import { createHash } from "node:crypto";
import type { Duplex } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type {
  ClusterKeeper,
  ClusterLine,
  ClusterWriter,
  MovedFile,
} from "@gpve/domain/vcluster/move/cluster-moves.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import { readBytes, readLine, writeLine } from "./move-wire.ts";

export const CLUSTER_CHANNEL = "vcluster";

interface Line {
  readonly file?: { readonly name: string; readonly size: number };
  /** SHA-256 of all names and bytes, in their order. */
  readonly finish?: string;
}

/** The node that has it. */
export class DialedClusterLine implements ClusterLine {
  readonly #socket: Duplex;
  readonly #answerOf: (line: unknown) => unknown;
  readonly #digest = createHash("sha256");

  constructor(socket: Duplex, answerOf: (line: unknown) => unknown) {
    this.#socket = socket;
    this.#answerOf = answerOf;
  }

  async send({ name, size, body }: MovedFile): Promise<void> {
    await this.#write(Buffer.from(`${JSON.stringify({ file: { name, size } })}\n`));
    this.#digest.update(`${name} ${size}\n`);
    let left = size;
    for await (const chunk of body) {
      left -= chunk.length;
      if (left < 0) break;
      this.#digest.update(chunk);
      await this.#write(chunk);
    }
    if (left !== 0)
      throw new AppError(
        "object.conflict",
        `${name} was changed while it was sent: somebody still has it open`,
      );
  }

  async finish(): Promise<void> {
    await this.#write(Buffer.from(`${JSON.stringify({ finish: this.#digest.digest("hex") })}\n`));
    this.#answerOf(await readLine(this.#socket));
  }

  close(): void {
    this.#socket.destroy();
  }

  async #write(bytes: Uint8Array): Promise<void> {
    // Whoever takes it says why it cannot go on, and hangs up.
    if (this.#socket.destroyed || this.#socket.readableLength > 0) {
      this.#answerOf(await readLine(this.#socket));
      throw new AppError("node.unavailable", "the node that takes the cluster answered before it was asked");
    }
    if (!this.#socket.write(bytes)) await roomIn(this.#socket);
  }
}

/** The node that is to have it. `failure` puts an error into an answer. */
export async function serveCluster(
  socket: Duplex,
  move: GuestMove,
  keeper: ClusterKeeper,
  failure: (err: unknown) => unknown,
): Promise<void> {
  let writer: ClusterWriter | undefined;
  const digest = createHash("sha256");
  try {
    writer = await keeper.begin(move);
    writeLine(socket, { ok: true });
    for (;;) {
      const line = (await readLine(socket)) as Line | undefined;
      if (line === undefined) return;
      if (line.finish !== undefined) {
        if (line.finish !== digest.digest("hex"))
          throw new AppError("request.invalid", "what came is not what was sent");
        await writer.finish();
        writer = undefined;
        writeLine(socket, { ok: true });
        return;
      }
      await takeFile(socket, writer, line, digest);
    }
  } catch (err) {
    writeLine(socket, { error: failure(err) });
  } finally {
    await writer?.abandon();
    socket.end();
    // Who still sends must be able to read why.
    socket.resume();
  }
}

async function takeFile(
  socket: Duplex,
  writer: ClusterWriter,
  { file }: Line,
  digest: { update(bytes: string | Uint8Array): unknown },
): Promise<void> {
  const { name, size } = file ?? {};
  if (typeof name !== "string" || !Number.isSafeInteger(size) || size === undefined || size < 0)
    throw new AppError("request.invalid", "this node was sent what it does not know");
  digest.update(`${name} ${size}\n`);
  const body = (async function* () {
    for await (const chunk of readBytes(socket, size)) {
      digest.update(chunk);
      yield chunk;
    }
  })();
  await writer.take({ name, size, body });
}
