// One stream of etcd's Watch service, driven message by message.
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { EtcdClient } from "./etcd-client.ts";
import type {
  WatchCreateRequestSchema,
  WatchRequestSchema,
  WatchResponse,
} from "../gen/proto/etcdserverpb/rpc_pb.ts";

type Request = MessageInitShape<typeof WatchRequestSchema>;

export class WatchLine {
  readonly #stop = new AbortController();
  readonly #answers: AsyncIterator<WatchResponse>;
  readonly #requests: Request[] = [];
  #wake: () => void = () => undefined;

  constructor(client: EtcdClient) {
    const answers = client.watch.watch(this.#send(), { signal: this.#stop.signal });
    this.#answers = answers[Symbol.asyncIterator]();
  }

  create(value: MessageInitShape<typeof WatchCreateRequestSchema>): void {
    this.#add({ requestUnion: { case: "createRequest", value } });
  }

  cancel(watchId: bigint): void {
    this.#add({ requestUnion: { case: "cancelRequest", value: { watchId } } });
  }

  progress(): void {
    this.#add({ requestUnion: { case: "progressRequest", value: {} } });
  }

  async next(): Promise<WatchResponse> {
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error("the watch stream ended");
    return value;
  }

  /** Answers up to and including the first that fits. */
  async until(fits: (answer: WatchResponse) => boolean): Promise<WatchResponse[]> {
    const answers: WatchResponse[] = [];
    for (;;) {
      const answer = await this.next();
      answers.push(answer);
      if (fits(answer)) return answers;
    }
  }

  close(): void {
    this.#stop.abort();
    this.#wake();
  }

  #add(request: Request): void {
    this.#requests.push(request);
    this.#wake();
  }

  async *#send(): AsyncGenerator<Request> {
    while (!this.#stop.signal.aborted) {
      const request = this.#requests.shift();
      if (request !== undefined) {
        yield request;
        continue;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
