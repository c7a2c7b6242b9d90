// How a copy of a VM's disks goes from agent to agent, on one connection: lines of JSON, and after a line that says so its
// bytes. Only the last line is answered; one who hangs up before it has sent nothing.
import type { Duplex } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ChangesWriter } from "@gpve/domain/backup/backup-ports.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { Replica, ReplicaKeeper, ReplicaLine, ReplicaOffer } from "@gpve/domain/replication/replica.ts";
import { AnsweredLine, answerLine } from "./answered-line.ts";
import { readBytes, readLine, writeLine } from "./move-wire.ts";

export const REPLICA_CHANNEL = "replica";
const MAX_PART_BYTES = 8 * 1024 * 1024;

interface Line {
  readonly state?: true;
  readonly begin?: ReplicaOffer;
  readonly part?: { readonly device: number; readonly offset: number; readonly length: number };
  readonly zeroes?: { readonly device: number; readonly offset: number; readonly length: number };
  readonly finish?: true;
}

/** The VM's node. */
export class DialedReplicaLine implements ReplicaLine {
  readonly #line: AnsweredLine;
  readonly writer: ChangesWriter;
  sent = 0;

  constructor(socket: Duplex, answerOf: (line: unknown) => unknown, pace: (sent: number) => Promise<void>) {
    const line = new AnsweredLine(socket, answerOf, "the node that keeps the copy");
    this.#line = line;
    this.writer = {
      data: async (device, offset, data) => {
        await line.say({ part: { device, offset, length: data.length } });
        await line.write(data);
        this.sent += data.length;
        await pace(this.sent);
      },
      zeroes: (device, offset, length) => line.say({ zeroes: { device, offset, length } }),
      finish: async () => {
        await line.ask({ finish: true });
      },
      abandon: async () => this.close(),
    };
  }

  async state(): Promise<Replica | undefined> {
    return ((await this.#line.ask({ state: true })) ?? undefined) as Replica | undefined;
  }

  async begin(offer: ReplicaOffer): Promise<void> {
    await this.#line.ask({ begin: offer });
  }

  close(): void {
    this.#line.close();
  }
}

/** The node that keeps the copy. `failure` puts an error into an answer. */
export async function serveReplica(
  socket: Duplex,
  move: GuestMove,
  keeper: ReplicaKeeper,
  failure: (err: unknown) => unknown,
): Promise<void> {
  let writer: ChangesWriter | undefined;
  const work = async (): Promise<void> => {
    writeLine(socket, { ok: true });
    for (;;) {
      const line = (await readLine(socket)) as Line | undefined;
      if (line === undefined) return;
      if (line.state === true) writeLine(socket, { ok: (await keeper.state(move.vmid)) ?? null });
      else if (line.begin !== undefined) {
        if (line.begin.vmid !== move.vmid)
          throw new AppError("access.denied", `no server has allowed a copy of VM ${line.begin.vmid}`);
        await writer?.abandon();
        writer = await keeper.begin(line.begin, move.from.node);
        writeLine(socket, { ok: true });
      } else if (line.finish === true) {
        await required(writer).finish();
        writer = undefined;
        writeLine(socket, { ok: true });
      } else await takePart(socket, required(writer), line);
    }
  };
  await answerLine(socket, failure, work, () => writer?.abandon());
}

async function takePart(socket: Duplex, writer: ChangesWriter, { part, zeroes }: Line): Promise<void> {
  if (zeroes !== undefined) return writer.zeroes(zeroes.device, zeroes.offset, zeroes.length);
  if (part === undefined || part.length > MAX_PART_BYTES)
    throw new AppError("request.invalid", "this node was sent what it does not know");
  const chunks: Uint8Array[] = [];
  for await (const chunk of readBytes(socket, part.length)) chunks.push(chunk);
  await writer.data(part.device, part.offset, Buffer.concat(chunks));
}

function required(writer: ChangesWriter | undefined): ChangesWriter {
  if (writer === undefined) throw new AppError("request.invalid", "nothing was offered yet");
  return writer;
}
