// What the machine of a worker tells its node, and is told. It may say anything: it is a tenant's.
import type { Socket } from "node:net";
import { readMachinePods } from "@gpve/domain/vcluster/vnode/machine.ts";
import type { VnodePod } from "@gpve/domain/vcluster/vnode/ports.ts";
import { ignore } from "@gpve/kit/background.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";

export type MachineWord =
  | "stop"
  | "restart kubelet"
  | "restart kube-proxy"
  | "restart containerd"
  /** Its settings say which volumes it shall have. */
  | "volumes"
  /** This one goes, with what is in it. */
  | `drop ${string}`;

/** More in one line is no list of a hundred pods. */
const LONGEST_LINE = 64 * 1024;
const PARTS = new Set(["containerd", "kubelet", "kube-proxy"]);

export class MachineLine {
  readonly #path: string;
  #socket: Socket | undefined;
  #connecting: Promise<Socket> | undefined;
  #rest = "";
  #pods: readonly VnodePod[] = [];
  readonly #words = new Map<string, string>();

  constructor(path: string) {
    this.#path = path;
  }

  /** As it was told last. */
  get pods(): readonly VnodePod[] {
    return this.#pods;
  }

  /** What its programs said last. */
  get words(): readonly string[] {
    return [...this.#words.entries()].map(([part, text]) => `${part}: ${text}`);
  }

  /** Listens, unless it does. */
  follow(): void {
    void this.#open().catch((err: unknown) => ignore(err, "it is tried again at the next look"));
  }

  async say(word: MachineWord): Promise<void> {
    const socket = await this.#open();
    await new Promise<void>((resolve, reject) => {
      socket.write(`${word}\n`, (err) => (err ? reject(err) : resolve()));
    });
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  async #open(): Promise<Socket> {
    if (this.#socket !== undefined) return this.#socket;
    this.#connecting ??= connectUnixSocket(this.#path, { timeoutMs: 5_000 }).finally(() => {
      this.#connecting = undefined;
    });
    const socket = await this.#connecting;
    if (this.#socket === undefined) this.#listen(socket);
    return socket;
  }

  #listen(socket: Socket): void {
    this.#socket = socket;
    this.#rest = "";
    socket.setEncoding("utf8");
    socket.on("data", (text) => this.#hear(String(text)));
    socket.on("error", (err) => ignore(err, "its end says it too"));
    socket.on("close", () => {
      if (this.#socket === socket) this.#socket = undefined;
    });
    socket.unref();
  }

  #hear(text: string): void {
    const lines = `${this.#rest}${text}`.split("\n");
    this.#rest = (lines.pop() ?? "").slice(0, LONGEST_LINE);
    for (const line of lines) {
      if (/^pods(?: |$)/.test(line)) this.#pods = readMachinePods(line.slice(0, LONGEST_LINE));
      const [, part = "", said = ""] = /^words (\S+) (.*)$/.exec(line.slice(0, 1_000)) ?? [];
      if (PARTS.has(part)) this.#words.set(part, said);
    }
  }
}
