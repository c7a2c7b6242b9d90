// A process of the supervisor's binary that carries what two QEMUs have encrypted: `gpve-supervisor carry`. It ends with its
// standard input: a line never outlives the agent that holds it, and the agent cuts it whenever it wants.
import type { Readable } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import { MOST_DIRECT_BYTES } from "@gpve/domain/vm/migrate/direct-line.ts";
import { type PipedProcess, spawnPiped } from "@gpve/kit/spawn.ts";
import { beginUrgentWork } from "@gpve/kit/urgent-work.ts";

export interface ListenedLine {
  /** Of this host, where the other node has reached it. */
  readonly address: string;
  /** The other node's, as it was seen. */
  readonly peer: string;
  /** What the guest serves. */
  readonly path: string;
  readonly uid: number;
}

export interface DialedPlace {
  readonly address: string;
  readonly port: number;
  /** Made here, for the guest to connect to. */
  readonly path: string;
}

const MOST_WORDS = 4_096;

export class CarriedLine {
  readonly #child: PipedProcess;
  #isExceeded = false;

  private constructor(child: PipedProcess) {
    this.#child = child;
    void child.ended.then(beginUrgentWork());
  }

  /** Resolves when it is waited for. `secret` is said in plain, to whoever listens there. */
  static async listen(
    program: string,
    { address, peer, path, uid }: ListenedLine,
    secret: string,
  ): Promise<{ readonly line: CarriedLine; readonly port: number }> {
    const words = ["listen", plainAddress(address), plainAddress(peer), path, String(uid)];
    const { line, said } = await CarriedLine.#begin(program, words, secret);
    const port = Number(/^port (\d+)$/.exec(said)?.[1]);
    if (port > 0) return { line, port };
    throw line.#failed(said);
  }

  /** Resolves when the other end has taken it. */
  static async dial(
    program: string,
    { address, port, path }: DialedPlace,
    secret: string,
  ): Promise<CarriedLine> {
    const words = ["dial", plainAddress(address), String(port), path];
    const { line, said } = await CarriedLine.#begin(program, words, secret);
    if (said !== "open") throw line.#failed(said);
    line.allow(MOST_DIRECT_BYTES);
    return line;
  }

  static async #begin(
    program: string,
    words: readonly string[],
    secret: string,
  ): Promise<{ line: CarriedLine; said: string }> {
    const child = spawnPiped(program, ["carry", ...words]);
    const line = new CarriedLine(child);
    child.input.write(`${secret}\n`);
    const said = linesOf(child.output, (each) => {
      if (each === "exceeded") line.#exceed();
    });
    return { line, said: await said };
  }

  /** The guest has sent more than it may, and was hung up on. */
  get isExceeded(): boolean {
    return this.#isExceeded;
  }

  allow(bytes: number): void {
    if (this.#child.input.writable) this.#child.input.write(`allow ${Math.floor(bytes)}\n`);
  }

  /** The guest stands still for what is under way. */
  hurry(): void {
    if (this.#child.input.writable) this.#child.input.write("hurry\n");
  }

  close(): void {
    this.#child.kill();
  }

  #exceed(): void {
    this.#isExceeded = true;
    this.close();
  }

  #failed(said: string): AppError {
    this.close();
    return new AppError("node.unavailable", said.replace(/^failed /, ""));
  }
}

/** IPv4 as a socket of both kinds tells it. */
export function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}

/** Resolves to the first; later ones are told. */
function linesOf(output: Readable, tell: (line: string) => void): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    output.on("data", (chunk: Buffer) => {
      text += chunk.toString("utf8");
      if (text.length > MOST_WORDS) output.destroy();
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        resolve(line);
        tell(line);
      }
    });
    output.on("close", () => resolve("failed it ended without a word"));
  });
}
