// Bodies of uploads go to the agent of their node as they arrive, whether it runs in this process or far away.
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { UploadStoredAnswer, type UploadStored } from "@gpve/contracts/agent/agent-messages.ts";
import type { AskedOf } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { UploadPlace } from "@gpve/domain/node/upload.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import { requireAnswer, type NodeCalls } from "./call-agent.ts";

interface To {
  readonly node: string;
  readonly storage: string;
  readonly actor: Actor | undefined;
  readonly access: AccessView;
}

const UPLOAD = "TUNNEL /gpve/nodes/{node}/storage/{storage}/upload";

export interface AgentUploadsOptions {
  readonly calls: Pick<NodeCalls, "tunnel">;
  readonly newRequestId: () => string;
}

export class AgentUploads {
  readonly #options: AgentUploadsOptions;

  constructor(options: AgentUploadsOptions) {
    this.#options = options;
  }

  async open(to: To, length: number): Promise<UploadPlace> {
    const { node } = to;
    const abort = new AbortController();
    const body = new PassThrough();
    const { opened, output } = await this.#tunnel(to, { length }, body, abort.signal);
    if (opened === null)
      throw new AppError("internal.error", `node '${node}' does not say where it keeps an upload`);
    const { path } = opened;
    let sent = 0;
    let isOpen = true;
    // Read from the start: a node that has no more room says so in mid-body.
    const stored = read(node, output);
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
        const taken = await this.#tunnel(to, { discard: path }, nothing(), new AbortController().signal);
        for await (const _ of taken.output);
      },
    };
  }

  #tunnel(
    { node, storage, actor, access }: To,
    params: Omit<AskedOf<typeof UPLOAD>, "storage">,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ) {
    const ctx = { actor, access, signal, requestId: this.#options.newRequestId(), clientAddress: "" };
    return this.#options.calls.tunnel(node, UPLOAD, { ...params, storage }, input, ctx);
  }
}

async function read(node: string, output: AsyncIterable<Uint8Array>): Promise<UploadStored> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of output) chunks.push(chunk);
  const said: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  requireAnswer(UploadStoredAnswer, said, { node, route: UPLOAD });
  return said as UploadStored;
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
