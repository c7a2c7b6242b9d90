// Uploads as servers bring them. Who may upload what is the server's business, and the call's that follows.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentConnection } from "@gpve/domain/node/agent-port.ts";
import { UPLOAD_TUNNEL, type UploadOpened, type UploadStored } from "@gpve/domain/node/upload.ts";

type Tunnel = NonNullable<AgentConnection["tunnel"]>;

export interface Spool {
  place(length: number): Promise<string>;
  store(path: string, input: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<number>;
  discard(path: string): Promise<void>;
}

/** Everything that is no upload goes to the other tunnels. */
export function withUploads(spool: Spool, others: Tunnel): Tunnel {
  return async (request, input, signal) => {
    if (request.decision.route !== UPLOAD_TUNNEL) return others(request, input, signal);
    const { length, discard } = request.params;
    if (typeof discard === "string") {
      await spool.discard(discard);
      return { opened: null, output: none() };
    }
    if (typeof length !== "number" || !Number.isSafeInteger(length) || length < 0)
      throw new AppError("request.invalid", "an upload says how long it is");
    const path = await spool.place(length);
    const opened: UploadOpened = { path };
    return { opened, output: stored(spool.store(path, input, signal)) };
  };
}

async function* stored(bytes: Promise<number>): AsyncGenerator<Uint8Array> {
  const answer: UploadStored = { bytes: await bytes };
  yield Buffer.from(JSON.stringify(answer));
}

async function* none(): AsyncGenerator<Uint8Array> {}
