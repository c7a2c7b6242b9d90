// Bodies of uploads go to the agent of their node as they arrive, whether it runs in this process or far away.
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentConnection } from "@gpve/domain/node/agent-port.ts";
import {
  UPLOAD_TARGET,
  type UploadOpened,
  type UploadPlace,
  type UploadRequest,
  type UploadStored,
} from "@gpve/domain/node/upload.ts";

export interface AgentUploadsOptions {
  /** Throws for a node that nobody knows. */
  readonly agentOf: (node: string) => AgentConnection;
  readonly newRequestId: () => string;
}

export class AgentUploads {
  readonly #options: AgentUploadsOptions;

  constructor(options: AgentUploadsOptions) {
    this.#options = options;
  }

  async open(node: string, length: number): Promise<UploadPlace> {
    const agent = this.#options.agentOf(node);
    const abort = new AbortController();
    const body = new PassThrough();
    const { opened, output } = await this.#tunnel(agent, { length }, body, abort.signal);
    const { path } = opened as UploadOpened;
    let sent = 0;
    let isOpen = true;
    // Read from the start: a node that has no more room says so in mid-body.
    const stored = read(output);
    const failed = stored.then(
      () => Promise.reject(new AppError("internal.error", `node '${node}' ended the upload early`)),
      (err: unknown) => Promise.reject(err as Error),
    );
    failed.catch(() => undefined);
    return {
      path,
      async write(bytes) {
        sent += bytes.length;
        if (!body.write(bytes)) await Promise.race([once(body, "drain"), failed]);
      },
      async finish() {
        isOpen = false;
        body.end();
        const { bytes } = await stored;
        if (bytes !== sent)
          throw new AppError("internal.error", `node '${node}' stored ${bytes} of ${sent} bytes`);
      },
      discard: async () => {
        if (isOpen) {
          isOpen = false;
          abort.abort();
          body.destroy();
          await stored.catch(() => undefined);
          return;
        }
        const taken = await this.#tunnel(agent, { discard: path }, nothing(), new AbortController().signal);
        for await (const _ of taken.output);
      },
    };
  }

  async #tunnel(
    agent: AgentConnection,
    params: UploadRequest,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): ReturnType<NonNullable<AgentConnection["tunnel"]>> {
    if (agent.tunnel === undefined)
      throw new AppError("feature.unsupported", `node '${agent.node}' takes no uploads`);
    const requestId = this.#options.newRequestId();
    return agent.tunnel(
      { target: UPLOAD_TARGET, params: { ...params }, actor: undefined, requestId },
      input,
      signal,
    );
  }
}

async function read(output: AsyncIterable<Uint8Array>): Promise<UploadStored> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of output) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as UploadStored;
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
