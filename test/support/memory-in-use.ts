// What a process of ours holds when everything that can go has gone: asked of its own debugger, which collects first.
// Resident memory says less: it also has what was freed and not given back.
import { WebSocket } from "ws";
import type { Gpve } from "./gpve.ts";

/** For `startGpve({ env: DEBUGGED })`. */
export const DEBUGGED = { NODE_OPTIONS: "--inspect=127.0.0.1:0" };

interface Reply {
  readonly id: number;
  readonly error?: { readonly message: string };
  readonly result: { readonly result?: { readonly value?: unknown } };
}

export class MemoryInUse {
  readonly #socket: WebSocket;
  #asked = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  static async open({ process }: Pick<Gpve, "process">): Promise<MemoryInUse> {
    const url = /ws:\/\/127\.0\.0\.1:\d+\/[\w-]+/.exec(process.output())?.[0];
    if (url === undefined) throw new Error("the process was not started with DEBUGGED");
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    return new MemoryInUse(socket);
  }

  async bytes(): Promise<number> {
    await this.#call("HeapProfiler.collectGarbage", {});
    const { result } = await this.#call("Runtime.evaluate", {
      expression: "(({ heapUsed, external }) => heapUsed + external)(process.memoryUsage())",
    });
    return Number(result?.value);
  }

  close(): void {
    this.#socket.close();
  }

  #call(method: string, params: object): Promise<Reply["result"]> {
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      const hear = (text: Buffer): void => {
        const reply = JSON.parse(text.toString()) as Reply;
        if (reply.id !== id) return;
        this.#socket.off("message", hear);
        if (reply.error === undefined) resolve(reply.result);
        else reject(new Error(`${method}: ${reply.error.message}`));
      };
      this.#socket.on("message", hear);
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }
}
