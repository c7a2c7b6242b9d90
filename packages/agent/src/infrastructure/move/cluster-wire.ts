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
import { AnsweredLine, answerLine } from "./answered-line.ts";
import { readBytes, readLine, writeLine } from "./move-wire.ts";

export const CLUSTER_CHANNEL = "vcluster";

interface Line {
  readonly file?: { readonly name: string; readonly size: number };
  /** SHA-256 of all names and bytes, in their order. */
  readonly finish?: string;
}

/** The node that has it. */
export class DialedClusterLine implements ClusterLine {
  readonly #line: AnsweredLine;
  readonly #digest = createHash("sha256");

  constructor(socket: Duplex, answerOf: (line: unknown) => unknown) {
    this.#line = new AnsweredLine(socket, answerOf, "the node that takes the cluster");
  }

  async send({ name, size, body }: MovedFile): Promise<void> {
    await this.#line.say({ file: { name, size } });
    this.#digest.update(`${name} ${size}\n`);
    let left = size;
    for await (const chunk of body) {
      left -= chunk.length;
      if (left < 0) break;
      this.#digest.update(chunk);
      await this.#line.write(chunk);
    }
    if (left !== 0)
      throw new AppError(
        "object.conflict",
        `${name} was changed while it was sent: somebody still has it open`,
      );
  }

  async finish(): Promise<void> {
    await this.#line.ask({ finish: this.#digest.digest("hex") });
  }

  close(): void {
    this.#line.close();
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
  const work = async (): Promise<void> => {
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
  };
  await answerLine(socket, failure, work, () => writer?.abandon());
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
