// Uploads as servers bring them. Who may upload what is the server's business, and the call's that follows.
import type { UploadStored } from "@gpve/contracts/agent/agent-messages.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Tunnels } from "../../../application/agent.ts";

export interface Spool {
  place(length: number): Promise<string>;
  store(path: string, input: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<number>;
  discard(path: string): Promise<void>;
}

export function uploadTunnels(spool: Spool): Tunnels<"TUNNEL /gpve/nodes/{node}/storage/{storage}/upload"> {
  return {
    "TUNNEL /gpve/nodes/{node}/storage/{storage}/upload": async (
      { length, discard },
      _authid,
      input,
      signal,
    ) => {
      if (discard !== undefined) {
        await spool.discard(discard);
        return { opened: null, output: none() };
      }
      if (length === undefined) throw new AppError("request.invalid", "an upload says how long it is");
      const path = await spool.place(length);
      return { opened: { path }, output: stored(spool.store(path, input, signal)) };
    },
  };
}

async function* stored(bytes: Promise<number>): AsyncGenerator<Uint8Array> {
  const answer: UploadStored = { bytes: await bytes };
  yield Buffer.from(JSON.stringify(answer));
}

async function* none(): AsyncGenerator<Uint8Array> {}
